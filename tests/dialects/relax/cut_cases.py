"""Cuts fusion at every candidate of small networks and prints one JSON line per cut.

A script for an interpreter with TVM's Relax: ``test_cut_fusion.py`` runs it and reads the lines. The first argument is
a folder with the networks of ``benchmarks/fusion_graphs.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import importer
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower, target_options
from passsearch.standalone.relax.graph_rewrites.cut_fusion import CutFusion, costly_broadcasts, fusion_cuts
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

Network = tuple[Sequence[tuple[int, ...]], Callable[..., Any]]


def weight(*shape: int) -> Any:
    return relax.const(RANDOM.standard_normal(shape).astype("float32"))


def gelu(emit: Any, data: Any) -> Any:
    total = emit(op.add(emit(op.matmul(data, weight(32, 48))), weight(48)))
    tail = emit(op.add(emit(op.erf(emit(op.divide(total, relax.const(1.41, "float32"))))), relax.const(1.0, "float32")))
    return emit(op.multiply(total, tail))


def row_statistics(emit: Any, data: Any) -> Any:
    centered = emit(op.subtract(data, emit(op.mean(data, -1, keepdims=True))))
    variance = emit(op.mean(emit(op.multiply(centered, centered)), -1, keepdims=True))
    return emit(op.divide(centered, emit(op.sqrt(emit(op.add(variance, relax.const(1e-5, "float32")))))))


def heads(emit: Any, data: Any) -> Any:
    parts = emit(op.reshape(emit(op.exp(data)), (6, 4, 8)))
    return emit(op.matmul(emit(op.permute_dims(parts, [1, 0, 2])), weight(4, 8, 5)))


def halves(emit: Any, data: Any) -> Any:
    parts = emit(op.split(emit(op.exp(data)), 2, axis=-1))
    first, second = (emit(relax.TupleGetItem(parts, place)) for place in (0, 1))
    return emit(op.multiply(first, emit(op.sigmoid(second))))


def gate(emit: Any, data: Any, mask: Any) -> Any:
    return emit(op.multiply(emit(op.tanh(emit(op.add(mask, emit(op.exp(data)))))), mask))


NETWORKS: dict[str, Network] = {
    "gelu": ([(6, 32)], gelu),
    "row statistics": ([(6, 32)], row_statistics),
    "heads": ([(6, 32)], heads),
    "halves": ([(6, 32)], halves),
    "gate": ([(64, 1), (64, 512)], gate),
}


def network(name: str) -> Any:
    shapes, body = NETWORKS[name]
    builder = relax.BlockBuilder()
    variables = [relax.Var(f"x{place}", relax.TensorType(shape, "float32")) for place, shape in enumerate(shapes)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *variables))
        builder.emit_func_output(result)
    return builder.get()


def apply(module: Any, *passes: Any) -> Any:
    with TARGET, tvm.transform.PassContext(opt_level=4):
        return tvm.transform.Sequential(passes)(module.clone())


def fuse(module: Any) -> Any:
    return apply(module, transform.FuseOps(fuse_opt_level=2), transform.FuseTIR())


def run(module: Any, values: Sequence[Any]) -> list[Any]:
    scheduled = apply(module, ExpandMath(), ScheduleCPU())
    with TARGET:
        library = relax.build(lower(scheduled, level=0, target=TARGET), TARGET, relax_pipeline=None)
    result = relax.VirtualMachine(library, tvm.cpu())["main"](*map(tvm.runtime.tensor, values))
    return [part.numpy() for part in ([result] if hasattr(result, "numpy") else result)]


def cases(name: str, module: Any, *, only_default: bool = False) -> list[dict[str, Any]]:
    loops = apply(module, transform.LegalizeOps(), transform.AnnotateTIROpPattern())
    shapes = [[int(size) for size in param.ty.shape.values] for param in loops["main"].params]
    values = [RANDOM.uniform(-0.25, 0.25, shape).astype("float32") for shape in shapes]
    expected = run(loops, values)
    fused, cuts = fuse(loops), fusion_cuts(loops)
    places = [] if only_default else [[cut.value] for cut in cuts]
    results = []
    for place in [*places, [cut.value for cut in cuts], list(costly_broadcasts(loops))]:
        cut_module = apply(loops, CutFusion(place))
        split = fuse(cut_module)
        actual = run(split, values)
        results.append(
            {
                "case": f"{name} cut at {place}",
                "cuts": [asdict(cut) for cut in cuts if cut.value in place],
                "well_formed": all(map(relax.analysis.check_well_formed, (cut_module, split))),
                "more_kernels": len(kernel_calls(split)) - len(kernel_calls(fused)),
                "stays_cut": {*place}.isdisjoint(cut.value for cut in fusion_cuts(cut_module)),
                "changed": tvm_ffi.structural_hash(cut_module) != tvm_ffi.structural_hash(loops),
                "same": all(
                    np.allclose(left, right, rtol=1e-5, atol=1e-6) for left, right in zip(expected, actual, strict=True)
                ),
            }
        )
    return results


def errors() -> dict[str, Any]:
    loops = apply(network("halves"), transform.LegalizeOps(), transform.AnnotateTIROpPattern())
    return {"case": "errors", "messages": {str(place): error_at(place, loops) for place in (-1, 2, 99)}}


def error_at(place: int, loops: Any) -> str:
    try:
        CutFusion([place])(loops)
    except ValueError as error:
        return str(error)
    return ""


def imported(path: Path) -> Any:
    return importer.load(ModelSource(path, "onnx", {}, None, None))


if __name__ == "__main__":
    for name in NETWORKS:
        for case in cases(name, network(name)):
            print(json.dumps(case), flush=True)
    for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
        for case in cases(path.stem, imported(path), only_default=True):
            print(json.dumps(case), flush=True)
    print(json.dumps(errors()), flush=True)
