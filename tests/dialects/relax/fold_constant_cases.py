"""Folds small modules with both evaluators of ``FoldConstant`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_constant_folding.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from passsearch.dialects.relax.constants import constant_uses
from passsearch.standalone.relax.graph_rewrites.fold_constant import EVALUATED_OPERATORS, FoldConstant, fold_with_numpy

DTYPES = ("float32", "float64", "int32", "int64")
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-40, -6e-8, 1e18, 0.1, 2.5, -0.5)
ROOTS = ("relax.sqrt", "relax.rsqrt")
SCALARS = (0.0, 3.0, 1e-5)
SHAPE = (2, 3, 1, 4)

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


def constant(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, *, kind: str) -> Any:
    """Return a constant of random values, half of them ``plain``, ``odd`` (zeros, denormals, extremes) or ``nan``."""
    if dtype.startswith("float"):
        values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
        strange = {"plain": values, "odd": rng.choice(ODD_FLOATS, shape), "nan": np.nan}[kind]
        values = np.where(rng.random(shape) < 0.5, strange, values)
    else:
        info = np.iinfo(dtype)
        values = rng.integers(1, 100, shape) if kind == "plain" else rng.choice([info.min, info.max, 0, 1, -1], shape)
    return relax.const(np.asarray(values).astype(dtype), dtype)


def module(emit: Callable[[Any], Any], dtype: str, *, dataflow: bool = True) -> tvm.IRModule:
    """Return a module that computes a value from constants, uses it twice, and returns it with its input."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3, 5, 4), dtype))
    with builder.function("main", [data]):
        if dataflow:
            with builder.dataflow():
                value = builder.emit(emit(builder))
                output = builder.emit_output(relax.Tuple([data, value, builder.emit(op.add(value, value))]))
        else:
            output = builder.emit(relax.Tuple([data, builder.emit(emit(builder))]))
        builder.emit_func_output(output)
    return builder.get()


def one_operator(name: str, dtype: str, kind: str) -> tvm.IRModule:
    """Return a module of one operator on constants; operands of roots are positive, divisors are not zero."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype} {kind}".encode()))
    first, second = (constant(rng, shape, dtype, kind=kind) for shape in (SHAPE, (3, 1, 1)))
    if name in ROOTS and kind != "nan":
        first = relax.const(np.abs(first.value.numpy()), dtype)
    if name == "relax.divide" and kind != "nan":
        second = relax.const(np.where(second.value.numpy() == 0, 2.5, second.value.numpy()).astype(dtype), dtype)
    if name in UNARY:
        return module(lambda _: UNARY[name](first), dtype)
    return module(lambda _: BINARY[name](first, second), dtype)


def with_scalar(name: str, scalar: float, *, number: bool) -> tvm.IRModule:
    """Return a module with a scalar as right operand, and also as left operand if it is a constant."""
    rng = np.random.default_rng(zlib.crc32(f"{name} {scalar}".encode()))
    data = constant(rng, SHAPE, "float32", kind="odd")
    if number:
        return module(lambda _: BINARY[name](data, tvm.tirx.FloatImm("float32", scalar)), "float32")
    constants = (data, relax.const(scalar, "float32"))
    return module(
        lambda builder: op.concat([builder.emit(BINARY[name](*pair)) for pair in (constants, constants[::-1])]),
        "float32",
    )


def batch_norm(builder: Any) -> Any:
    """Return the scale of a batch norm in the form of ``DecomposeOpsForInference`` and ``FoldBatchnormToConv2D``."""
    rng = np.random.default_rng(0)
    scale, variance = (relax.const(rng.random(3).astype("float32")) for _ in range(2))
    deviation = builder.emit(op.sqrt(builder.emit(op.add(variance, tvm.tirx.FloatImm("float32", 1e-5)))))
    return op.divide(builder.emit(op.expand_dims(scale, [0])), deviation)


def cases() -> Iterator[tuple[str, tvm.IRModule, tuple[str, ...]]]:
    """Yield title, module, and the operators that numpy must evaluate."""
    for dtype, kind, name in product(DTYPES, ("plain", "odd", "nan"), (*UNARY, *BINARY)):
        if dtype.startswith("int") and (kind == "nan" or name in (*ROOTS, "relax.divide")):
            continue
        yield f"{name} {dtype} {kind}", one_operator(name, dtype, kind), (name.split()[0],) * (kind != "nan")
    for name, scalar, number in product(BINARY, SCALARS, (False, True)):
        if (name, scalar) != ("relax.divide", 0.0):  # TVM raises
            yield f"{name} scalar {scalar}{' number' * number}", with_scalar(name, scalar, number=number), ()
    yield "batch norm", module(batch_norm, "float32"), ("relax.add", "relax.sqrt", "relax.expand_dims", "relax.divide")
    for name in BINARY:
        ones = relax.const(np.ones(3, "float32"))
        outside = module(lambda _, call=BINARY[name], ones=ones: call(ones, ones), "float32", dataflow=False)
        yield f"{name} outside dataflow", outside, ()


def main() -> None:
    """Fold every case with both evaluators."""
    operators = {name.split()[0] for name in (*UNARY, *BINARY)}
    assert operators == EVALUATED_OPERATORS, "a case for every operator"
    for title, plain, evaluated in islice(cases(), 0, None, int(sys.argv[1])):
        with tvm.target.Target("llvm"):
            by_tvm, by_numpy = (FoldConstant(evaluator)(plain) for evaluator in ("tvm", "numpy"))
        equal = tvm_ffi.structural_equal(by_tvm, by_numpy) and constant_uses(by_tvm) == constant_uses(by_numpy)
        left = [name for name in evaluated if name.replace("relax.", "R.") + "(" in fold_with_numpy(plain).script()]
        print(json.dumps({"case": title, "equal": bool(equal), "left to tvm": left}), flush=True)


if __name__ == "__main__":
    main()
