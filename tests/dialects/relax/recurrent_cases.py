"""Runs the recurrent layers of ``recurrent_networks.py``; prints one JSON line for each network.

A script for an interpreter with TVM's Relax: ``test_recurrent_layers.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from gpu_cases import in_turn
from tvm import relax, tirx

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.onnx_graph import read
from passsearch.dialects.relax.recurrence.cell import recurrences
from passsearch.dialects.relax.recurrence.gpu_loops import gpu_function, open_sizes
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import DEFAULT, lower
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

TARGET = tvm.target.Target({"kind": "llvm"})
DEFAULTS = 5
"""One network of this number also goes through TVM's own pipeline."""


def run(module: Any, inputs: Mapping[str, Any], *, level: int) -> dict[str, list[Any]]:
    """Return the outputs for each input."""
    with TARGET:
        if level < DEFAULT:
            passes = [relax.transform.LegalizeOps(), ExpandMath(), ScheduleCPU()]
            module = tvm.transform.Sequential(passes)(module)
        library = relax.build(lower(module, level=level, target=TARGET), TARGET, relax_pipeline=None)
    machine = relax.VirtualMachine(library, tvm.cpu())
    outputs = {name: machine["main"](tvm.runtime.tensor(data)) for name, data in inputs.items()}
    return {name: [each.numpy() for each in results] for name, results in outputs.items()}


def error(module: Any, arrays: Mapping[str, Any], *, level: int) -> float:
    """Return the largest difference from what is right."""
    inputs = {name: arrays[name] for name in arrays if name.startswith("x ")}
    results = run(module, inputs, level=level)
    pairs = [
        (mine, arrays[f"{place} {name.split()[1]}"])
        for name, outputs in results.items()
        for place, mine in enumerate(outputs)
    ]
    assert all(mine.shape == right.shape for mine, right in pairs)
    return max(float(np.abs(mine - right).max()) for mine, right in pairs)


def in_one_thread(module: Any) -> Any:
    """Return the module with the loops for a GPU, in one thread for each block, as loops for a CPU."""
    for name, recurrence in recurrences(module).items():
        variable = module.get_global_var(name)
        function = module[variable]
        body = gpu_function(recurrence, *open_sizes(recurrence, function), most_threads=1)
        bare = tvm_ffi.structural_map(body, (tirx.Evaluate, lambda _: tirx.Evaluate(0)))  # there is nobody to wait for
        for key, value in function.attrs.items():
            bare = bare.with_attr(key, value)
        module[variable] = in_turn(bare)
    return module


def main(folder: Path) -> None:
    for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
        path = folder / f"{number}.onnx"
        module = read(ModelSource(path=path, format="onnx", inputs={}))
        with np.load(path.with_suffix(".npz")) as arrays:
            levels = (0, DEFAULT) if number % DEFAULTS == 0 else (0,)
            errors = [error(module, arrays, level=level) for level in levels]
            errors.append(error(in_one_thread(module), arrays, level=0))
        print(json.dumps({"case": case, "errors": errors}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
