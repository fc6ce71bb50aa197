"""Folds small modules with both evaluators of ``FoldConstant`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_fold_constant.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from passsearch.dialects.relax.constants import constant_uses
from passsearch.dialects.relax.fold_constant import EVALUATED_OPERATORS, FoldConstant, _folded

DTYPES = ("float32", "float64", "int32", "int64")
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -6e-8, 1e38, 0.1, 2.5, -0.5)
SHAPE = (2, 3, 1, 4)

Emit = Callable[[Any, Any, Any], Any]

UNARY: dict[str, Callable[[Any], Any]] = {
    "relax.negative": op.negative,
    "relax.sqrt": op.sqrt,
    "relax.rsqrt": op.rsqrt,
    "relax.expand_dims": lambda data: op.expand_dims(data, [0, -1]),
    "relax.permute_dims": lambda data: op.permute_dims(data, [3, 0, 2, 1]),
    "relax.permute_dims all": lambda data: op.permute_dims(data),
    "relax.reshape": lambda data: op.reshape(data, (6, -1)),
    "relax.squeeze": lambda data: op.squeeze(data, [2]),
    "relax.squeeze all": lambda data: op.squeeze(data),
}
BINARY = {f"relax.{name}": getattr(op, name) for name in ("add", "subtract", "multiply", "divide")}


def constant(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, *, odd: bool) -> Any:
    """Random values; some are odd if that is asked for: zeros of both signs, infinities, denormals, extremes."""
    if dtype.startswith("float"):
        values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
        values = np.where(rng.random(shape) < 0.5, rng.choice(ODD_FLOATS, shape), values) if odd else np.abs(values)
    else:
        info = np.iinfo(dtype)
        values = rng.choice([info.min, info.max, 0, 1, -1, 7], shape) if odd else rng.integers(1, 100, shape)
    with np.errstate(over="ignore"):
        return relax.const(values.astype(dtype), dtype)


def module(emit: Emit, dtype: str, rng: np.random.Generator, *, odd: bool) -> tvm.IRModule:
    """Adds what is computed from constants to the network's input, and reads one constant twice."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3, 5, 4), dtype))
    with builder.function("main", [data]):
        with builder.dataflow():
            first, second = (constant(rng, shape, dtype, odd=odd) for shape in (SHAPE, (3, 1, 1)))
            found = builder.emit(emit(builder, first, second))
            twice = builder.emit(op.add(found, found))
            output = builder.emit_output(relax.Tuple([data, found, twice]))
        builder.emit_func_output(output)
    return builder.get()


def batch_norm(builder: Any, first: Any, second: Any) -> Any:
    """As ``DecomposeOpsForInference`` writes it."""
    deviation = builder.emit(op.sqrt(builder.emit(op.add(second, tvm.tirx.FloatImm("float32", 1e-5)))))
    return op.divide(builder.emit(op.expand_dims(first, [0])), deviation)


def cases() -> dict[str, tvm.IRModule]:
    """One per operator, dtype and kind of values."""
    emits: dict[str, Emit] = {name: lambda _, first, __, call=call: call(first) for name, call in UNARY.items()}
    emits |= {name: lambda _, first, second, call=call: call(first, second) for name, call in BINARY.items()}
    found = {}
    for dtype in DTYPES:
        for odd in (False, True):
            for name, emit in emits.items():
                if dtype.startswith("int") and name in ("relax.divide", "relax.sqrt", "relax.rsqrt"):
                    continue
                title = f"{name} {dtype}{' odd' if odd else ''}"
                rng = np.random.default_rng(zlib.crc32(title.encode()))
                found[title] = module(emit, dtype, rng, odd=odd)
    found["batch norm"] = module(batch_norm, "float32", np.random.default_rng(0), odd=False)
    return found


def main() -> None:
    """Fold every case both ways."""
    named = {name.split()[0] for name in (*UNARY, *BINARY)}
    assert named == EVALUATED_OPERATORS, "a case for every operator"
    for name, each in cases().items():
        with tvm.target.Target("llvm"):
            by_tvm, by_numpy = (FoldConstant(evaluator)(each) for evaluator in ("tvm", "numpy"))
        equal = tvm_ffi.structural_equal(by_tvm, by_numpy) and constant_uses(by_tvm) == constant_uses(by_numpy)
        written = f"{name.split()[0].replace('relax.', 'R.')}("
        folded, alone = (written not in found.script() for found in (by_numpy, _folded(each)))
        print(json.dumps({"case": name, "equal": bool(equal), "folded": folded, "by numpy": alone}), flush=True)


if __name__ == "__main__":
    main()
