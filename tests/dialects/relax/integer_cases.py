"""Runs quantised networks in integers and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_integers.py`` writes the networks, runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import transform

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.onnx_graph import read
from passsearch.standalone.relax.cpu_schedules import PairProducts, ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower, target_options
from passsearch.standalone.relax.graph_rewrites.cancel_transpositions import CancelTranspositions
from passsearch.standalone.relax.graph_rewrites.fold_constant import FoldConstant
from passsearch.standalone.relax.graph_rewrites.layouts import ConvertLayout
from passsearch.standalone.relax.integers import NOTES, IntegerOperators

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))


def integer_form(module: Any) -> Any:
    return tvm.transform.Sequential(
        [
            IntegerOperators(),
            FoldConstant("numpy"),
            ConvertLayout(),
            FoldConstant("numpy"),
            CancelTranspositions(),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(2),
            transform.FuseTIR(),
            PairProducts(),
        ]
    )(module)


def outputs(module: Any, inputs: list[Any]) -> list[Any]:
    library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    result = relax.VirtualMachine(library, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs))
    parts = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [each.numpy() for each in parts]


def steps(actual: Any, expected: Any, step: float) -> tuple[float, float]:
    """Return the largest and the mean deviation in steps."""
    difference = np.abs(actual.astype("float64") - expected.astype("float64")) / step
    return float(difference.max(initial=0)), float(difference.mean())


def case(path: Path) -> dict[str, Any]:
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    inputs = {name.removeprefix("in "): each for name, each in arrays.items() if name.startswith("in ")}
    expected = [arrays[f"out {place}"] for place in range(sum(name.startswith("out ") for name in arrays))]
    types = {name: TensorType(each.shape, str(each.dtype)) for name, each in inputs.items()}
    module = read(ModelSource(path, "onnx", types, None, None))
    with TARGET, tvm.transform.PassContext(opt_level=3):
        integers = integer_form(module)
        calls = integers.script()
        scheduled = ScheduleCPU()(integers)
        actual = outputs(scheduled, list(inputs.values()))
    notes = integers["main"].attrs.get(NOTES) if integers["main"].attrs else None
    deviations = [
        steps(one, other, float(step)) for one, other, step in zip(actual, expected, arrays["steps"], strict=True)
    ]
    return {
        "case": path.stem,
        "largest": max(each[0] for each in deviations),
        "mean": max(each[1] for each in deviations),
        "notes": list(notes or ()),
        "in_pairs": "passsearch.wide_sums" in calls,
        "in_quads": "passsearch_quads" in calls,
        "types": [str(one.dtype) == str(other.dtype) for one, other in zip(actual, expected, strict=True)],
    }


if __name__ == "__main__":
    for each in sorted(Path(sys.argv[1]).glob(sys.argv[2] if len(sys.argv) > 2 else "*.onnx")):
        print(json.dumps(case(each)), flush=True)
