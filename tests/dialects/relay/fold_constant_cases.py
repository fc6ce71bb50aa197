"""Folds small modules with both evaluators of ``FoldConstant`` and prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_fold_constant.py`` runs it and reads the lines. Its arguments are n
(every n-th dtype of an operator is tested) and the number of random graphs.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.relay.constants import Constants
from passsearch.standalone.relay.graph_rewrites.fold_constant import DynamicToStatic, FoldConstant, FoldScaleAxis

TARGET = tvm.target.Target("llvm -mtriple=x86_64-unknown-linux-gnu")
FLOATS = ("float32", "float16", "float64")
INTEGERS = ("int64", "int32", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-40, -6e-8, 65504.0, 1e38, 0.1, 2.5, -0.5)
SHAPES = ((), (7,), (3, 1), (2, 3, 4), (16, 8, 3, 3))

Build = Callable[[np.random.Generator], Any]
Fold = tuple[tvm.IRModule, float]
Factory = Callable[[str], Any]


def constant(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, *, nan: bool = False) -> Any:
    """Return a constant of random values, some of them odd: zeros of both signs, infinities, denormals, extremes."""
    if dtype == "bool":
        return relay.const(np.asarray(rng.integers(0, 2, shape), "bool"))
    if dtype in FLOATS:
        values = np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape))
        odd = rng.choice([*ODD_FLOATS, np.nan] if nan else ODD_FLOATS, shape)
    else:
        info = np.iinfo(dtype)
        values = np.asarray(rng.integers(max(info.min, -100), 100, shape))
        odd = rng.choice([info.min, info.max, 0, 1], shape)
    with np.errstate(over="ignore"):
        # Without its dtype, relay.const would narrow to 32 bits.
        return relay.const(np.where(rng.random(shape) < 0.3, odd, values).astype(dtype), dtype)


# One case per operator and dtype.


def unary(call: Callable[[Any], Any], dtype: str) -> Build:
    def build(rng: np.random.Generator) -> Any:
        return relay.Tuple([call(constant(rng, shape, dtype, nan=len(shape) > 2)) for shape in SHAPES])

    return build


def binary(call: Callable[[Any, Any], Any], dtype: str) -> Build:
    pairs = [((), ()), ((), (7,)), ((7,), (7,)), ((2, 3, 4), (3, 1)), ((16, 8, 3, 3), (16, 1, 1, 1))]

    def build(rng: np.random.Generator) -> Any:
        results = [call(*(constant(rng, shape, dtype) for shape in pair)) for pair in pairs]
        return relay.Tuple([*results, call(*(constant(rng, (7,), dtype, nan=True) for _ in range(2)))])

    return build


def casts(dtype: str) -> Build:
    def build(rng: np.random.Generator) -> Any:
        small = relay.const(np.asarray(rng.integers(0, 100, (9,))).astype(dtype), dtype)
        # A conversion to integers is undefined out of range, so odd values are converted to floats only.
        targets = DTYPES if dtype not in FLOATS else (*FLOATS, "bool")
        odd = [relay.cast(constant(rng, (9,), dtype), to) for to in targets]
        return relay.Tuple(odd + [relay.cast(small, to) for to in DTYPES])

    return build


def movements(dtype: str) -> Build:
    def build(rng: np.random.Generator) -> Any:
        box, cube = constant(rng, (2, 3, 4), dtype, nan=True), constant(rng, (2, 3, 4), dtype)
        weight, data = constant(rng, (32, 16, 3, 3), dtype), constant(rng, (1, 32, 5, 5), dtype)
        blocked = relay.layout_transform(weight, "OIHW", "OIHW8i16o")
        results = [
            relay.reshape(box, (4, -1)), relay.expand_dims(box, 1, 2), relay.squeeze(relay.expand_dims(box, 0)),
            relay.nn.batch_flatten(box), relay.broadcast_to(box, (5, 2, 3, 4)), relay.copy(box),
            relay.transpose(box), relay.transpose(box, (1, 0, 2)), relay.transpose(box, (-1, 0, 1)),
            relay.concatenate([box, cube], 1), relay.concatenate([box, cube, box], -1), relay.stack([box, cube], 1),
            relay.split(box, 2, axis=2).tuple_value, relay.split(box, (1, 2), axis=1)[1],
            relay.strided_slice(box, [0, 1], [2, 3]), relay.strided_slice(box, [-3], [9], [2], axes=[2]),
            relay.strided_slice(box, [1, 0, 3], [2, -1, 0], [1, 1, -1]), relay.strided_slice(box, [0], [1], axes=[1]),
            relay.strided_slice(box, [1, 0, 1], [1, 2, -1], slice_mode="size"),
            relay.take(box, relay.const(np.array([2, 0, 0], "int32")), axis=1), relay.take(box, relay.const(5)),
            relay.take(box, relay.const(np.array([[7, -1]]), "int64"), axis=2),
            relay.take(box, relay.const(np.array([[3, -1]]), "int64"), axis=2, mode="wrap"),
            relay.where(constant(rng, (3, 1), "bool"), box, cube), relay.tile(box, (2, 1, 3)),
            relay.repeat(box, 3, axis=1), relay.zeros_like(box), relay.ones_like(box),
            relay.full_like(box, constant(rng, (), dtype)), relay.full(constant(rng, (), dtype), (3, 2), dtype),
            blocked, relay.layout_transform(blocked, "OIHW8i16o", "OIHW"),
            relay.layout_transform(blocked, "OIHW8i16o", "OIHW16i16o"), relay.layout_transform(weight, "OIHW", "HWIO"),
            relay.layout_transform(weight, "OIHW", "OIHW4i16o4i"),
            relay.layout_transform(relay.layout_transform(data, "NCHW", "NCHW16c"), "NCHW16c", "NHWC"),
        ]  # fmt: skip
        return relay.Tuple(results)

    return build


def operator_cases() -> Iterator[tuple[str, Build]]:
    """Yield every operator that numpy evaluates, on every dtype that TVM compiles it for."""
    op = relay.op
    for dtype in (*FLOATS, *INTEGERS):
        # A division of integers by zero crashes the process.
        calls = [op.add, op.subtract, op.multiply, op.maximum, op.minimum]
        for call in [*calls, op.divide] if dtype in FLOATS else calls:
            yield f"{call.__name__} {dtype}", binary(call, dtype)
        yield f"negative {dtype}", unary(op.negative, dtype)
        yield f"clip {dtype}", unary(lambda x: relay.clip(relay.clip(x, -0.0, 6.0), 0.0, 3.0), dtype)
    for dtype in (*FLOATS, "int64", "int32", "int8"):
        yield f"abs {dtype}", unary(op.abs, dtype)
    for dtype in FLOATS:
        yield f"sqrt {dtype}", unary(op.sqrt, dtype)
        yield f"rsqrt {dtype}", unary(op.rsqrt, dtype)
    for dtype in DTYPES:
        for call in (op.equal, op.not_equal, op.less, op.less_equal, op.greater, op.greater_equal):
            yield f"{call.__name__} {dtype}", binary(call, dtype)
        yield f"cast {dtype}", casts(dtype)
        yield f"movements {dtype}", movements(dtype)
    for call in (op.logical_and, op.logical_or):
        yield call.__name__, binary(call, "bool")
    yield "logical_not", unary(op.logical_not, "bool")
    for dtype in ("int32", "int64", "float32"):
        yield f"arange {dtype}", aranges(dtype)


def aranges(dtype: str) -> Build:
    def build(_: np.random.Generator) -> Any:
        bounds = ((0, 7, 1), (3, 12, 4), (5, -4, -2))
        return relay.Tuple([relay.arange(*(relay.const(x, dtype) for x in xs), dtype=dtype) for xs in bounds])

    return build


# Constructs that the pass enters, and constructs that it does not.


def function_of(body: Any, **attrs: Any) -> Any:
    function = relay.Function(relay.analysis.free_vars(body), body)
    for name, value in attrs.items():
        function = function.with_attr(name, value)
    return function


def nested_functions(rng: np.random.Generator) -> Any:
    """Return calls of composite, primitive and plain functions, with constants inside and before them."""
    x, results = relay.var("x", shape=(7,)), []
    for attrs in ({}, {"Composite": "a.b"}, {"Primitive": tvm.tir.IntImm("int32", 1)}):
        y = relay.var("y", shape=(7,))
        inner = function_of(y + relay.sqrt(relay.abs(constant(rng, (7,), "float32"))), **attrs)
        results += [relay.Call(inner, [x]), relay.Call(inner, [relay.abs(constant(rng, (7,), "float32"))])]
    return relay.Tuple(results)


def bindings(rng: np.random.Generator) -> Any:
    x, a, b = relay.var("x", shape=(7,)), relay.var("a"), relay.var("b")
    folded = relay.abs(constant(rng, (7,), "float32"))
    inner = relay.Let(b, x + relay.sqrt(folded), b + relay.sqrt(a) * a)
    return relay.Let(a, folded, inner)


def branches(rng: np.random.Generator) -> Any:
    x, condition = relay.var("x", shape=(7,)), relay.var("c", shape=(), dtype="bool")
    folded = relay.abs(constant(rng, (7,), "float32"))
    constant_condition = relay.less(relay.const(1.0), relay.const(2.0))
    return relay.If(condition, x + folded, relay.If(constant_condition, x * relay.sqrt(folded), x))


def tuples(rng: np.random.Generator) -> Any:
    x = relay.var("x", shape=(7,))
    pair = relay.Tuple([constant(rng, (7,), "float32"), x, relay.Tuple([constant(rng, (7,), "float32")])])
    first, last = relay.TupleGetItem(pair, 0), relay.TupleGetItem(relay.TupleGetItem(pair, 2), 0)
    return relay.Tuple([relay.abs(first), first + last, relay.TupleGetItem(pair, 1) + relay.abs(last), pair])


def shapes(rng: np.random.Generator) -> Any:
    """Return ``shape_of`` and ``ndarray_size`` of variables and constants, static and dynamic."""
    x, dynamic = relay.var("x", shape=(2, 3)), relay.var("d", shape=(relay.Any(), 3))
    box = constant(rng, (2, 3, 4), "float32")
    counted = [relay.op.shape_of(e, dtype) for e in (x, box, x + x, dynamic) for dtype in ("int32", "int64")]
    sizes = [relay.op.ndarray_size(e) for e in (x, relay.abs(box), dynamic)]
    taken = [relay.take(relay.cast(e, "int64"), relay.const(1), axis=0) for e in counted]
    return relay.Tuple(counted + sizes + taken)


def left_to_tvm(rng: np.random.Generator) -> Any:
    """Return calls that numpy does not evaluate, between calls it does; and calls that TVM does not fold."""
    data, positive = constant(rng, (7,), "float32"), relay.const(np.asarray(rng.random(7) + 1, "float32"))
    placed = relay.annotation.on_device(relay.abs(data), tvm.cpu(), constrain_body=False)
    zeros, quantised = relay.zeros((7,), "float32"), relay.qnn.op.quantize(positive, relay.const(0.1), relay.const(3))
    results = [relay.exp(relay.negative(positive)), relay.sqrt(relay.log(positive)), placed + data, zeros + data]
    return relay.Tuple([*results, relay.abs(relay.cast(quantised, "int32")), relay.sum(relay.abs(positive))])


def shared(rng: np.random.Generator) -> Any:
    """Return equal calls on one constant, and one call with two users."""
    x, data = relay.var("x", shape=(7,)), constant(rng, (7,), "float32")
    once = relay.abs(data)
    return relay.Tuple([x + once, x * once, x + relay.abs(data), relay.sqrt(once), relay.sqrt(relay.abs(data))])


def deep(rng: np.random.Generator) -> Any:
    """Return a chain of calls deeper than Python's recursion limit, with constants in it."""
    x = relay.var("x", shape=(7,))
    data = constant(rng, (7,), "float32")
    for level in range(1500):
        x = relay.add(x, relay.abs(data) if level % 500 == 0 else data)
    return x


def structure_cases() -> Iterator[tuple[str, Build]]:
    """Yield every construct of Relay that the pass has a rule for."""
    for build in (nested_functions, bindings, branches, tuples, shapes, left_to_tvm, shared, deep):
        yield build.__name__, build


# Random graphs.


def grow(rng: np.random.Generator, pool: list[tuple[Any, tuple[int, ...], str]]) -> tuple[Any, tuple[int, ...], str]:
    """Return a new expression over those of the pool, with its shape and dtype."""
    expr, shape, dtype = pool[rng.integers(len(pool))]
    numeric: dict[str, Callable[[], Any]] = {
        "add": lambda: relay.add(expr, constant(rng, (), dtype)),
        "multiply": lambda: relay.multiply(expr, constant(rng, shape, dtype)),
        "subtract": lambda: relay.subtract(constant(rng, shape, dtype), expr),
        "maximum": lambda: relay.maximum(expr, constant(rng, shape, dtype)),
        "negative": lambda: relay.negative(expr),
    }
    if dtype != "bool" and rng.random() < 0.5:
        return numeric[str(rng.choice(sorted(numeric)))](), shape, dtype
    if dtype in FLOATS and rng.random() < 0.5:
        root = (relay.sqrt, relay.rsqrt)[rng.integers(2)](relay.abs(expr))
        return root, shape, dtype
    if dtype not in FLOATS and rng.random() < 0.4:
        to = str(rng.choice(DTYPES))
        return relay.cast(expr, to), shape, to
    return (*move(rng, expr, shape), dtype)


def move(rng: np.random.Generator, expr: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    choice = rng.integers(4)
    if choice == 0 and len(shape) < 5:
        return relay.expand_dims(expr, 0), (1, *shape)
    if choice == 1:
        return relay.reshape(expr, (-1,)), (int(np.prod(shape)),)
    if choice == 2 and shape:
        order = [int(axis) for axis in rng.permutation(len(shape))]
        return relay.transpose(expr, order), tuple(shape[axis] for axis in order)
    if choice == 3 and shape:
        return relay.concatenate([expr, expr], 0), (2 * shape[0], *shape[1:])
    return relay.copy(expr), shape


def random_graph(rng: np.random.Generator) -> Any:
    pool = []
    for dtype in rng.permutation(DTYPES)[:3]:
        shape = SHAPES[rng.integers(len(SHAPES) - 1)]
        pool.append((constant(rng, shape, str(dtype), nan=bool(rng.random() < 0.2)), shape, str(dtype)))
    for _ in range(12):
        pool.append(grow(rng, pool))
    uses = [relay.add(relay.var(f"x{i}", shape=s, dtype=t), e) for i, (e, s, t) in enumerate(pool) if t == "float32"]
    return relay.Tuple([expr for expr, _, _ in pool] + uses)


def random_cases(count: int) -> Iterator[tuple[str, Build]]:
    for index in range(count):
        yield f"random {index}", random_graph


# Other passes that fold constants.


def scaled(rng: np.random.Generator) -> Any:
    """Return a convolution with the scales of batch norms before and after it."""
    data = relay.multiply(relay.var("data", shape=(1, 4, 8, 8)), constant(rng, (4, 1, 1), "float32"))
    weight = relay.reshape(constant(rng, (36, 6), "float32"), (6, 4, 3, 3))
    result = relay.nn.conv2d(data, weight, kernel_size=(3, 3), channels=6)
    result = relay.multiply(result, relay.sqrt(relay.abs(constant(rng, (6, 1, 1), "float32"))))
    return relay.nn.relu(relay.add(result, constant(rng, (6, 1, 1), "float32")))


def dynamic(rng: np.random.Generator) -> Any:
    """Return a reshape whose shape is computed from constants."""
    shape = relay.concatenate([relay.const([2]), relay.add(relay.const([3]), relay.const([1]))], 0)
    data = relay.add(relay.var("data", shape=(8,)), constant(rng, (8,), "float32"))
    return relay.reshape(data, relay.cast(shape, "int64"))


# Comparison.


def fold(module: tvm.IRModule, evaluator: str, factory: Factory) -> Fold:
    with TARGET, tvm.transform.PassContext(opt_level=4):
        start = time.perf_counter()
        folded = relay.transform.InferType()(factory(evaluator)(module))
        return folded, time.perf_counter() - start


def identity(module: tvm.IRModule) -> int:
    """Return a hash that differs for one constant used twice and two equal constants; TVM's own hash does not."""
    return int(tvm.ir.structural_hash(Constants().strip(module)[0]))


def compare(name: str, build: Build, seed: int, factory: Factory = FoldConstant) -> dict[str, Any]:
    module = tvm.IRModule.from_expr(function_of(build(np.random.default_rng(seed))))
    module = relay.transform.InferType()(module)
    by_numpy, seconds_numpy = fold(module, "numpy", factory)
    by_tvm, seconds_tvm = fold(module, "tvm", factory)
    same = tvm.ir.structural_hash(by_tvm) == tvm.ir.structural_hash(by_numpy)
    equal = same and bool(tvm.ir.structural_equal(by_tvm, by_numpy, map_free_vars=False))
    equal = equal and identity(by_tvm) == identity(by_numpy)
    return {"case": name, "equal": equal, "seconds_tvm": seconds_tvm, "seconds_numpy": seconds_numpy}


def main(every: int, random_count: int) -> None:
    counts = Counter[str]()
    selection = []
    for name, build in operator_cases():
        operator = name.split()[0]
        if counts[operator] % every == 0:
            selection.append((name, build))
        counts[operator] += 1
    cases = itertools.chain(selection, structure_cases(), random_cases(random_count))
    for seed, (name, build) in enumerate(cases):
        print(json.dumps(compare(name, build, seed)), flush=True)
    for seed, factory in enumerate((FoldScaleAxis, DynamicToStatic)):
        for name, build in (("scaled convolution", scaled), ("dynamic reshape", dynamic)):
            print(json.dumps(compare(f"{factory.__name__}, {name}", build, seed, factory)), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
