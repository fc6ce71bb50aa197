"""Runs products and convolutions with narrow weights and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_narrow_weights.py`` runs it and reads the lines.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls, network, run
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import (
    NOTES,
    NarrowWeights,
    ScheduleCPU,
    numbered_calls,
    rounded_weights,
    storage_of,
)
from passsearch.standalone.relax.deployment.lowering import lower, target_options
from passsearch.standalone.relax.graph_rewrites.merge_products import MergeProducts

PROCESSOR = "llvm -mcpu=x86-64-v3"
TARGET = tvm.target.Target(target_options(PROCESSOR))
RANDOM = np.random.default_rng(0)
STORAGES = (("bfloat16", 0), ("float16", 0), ("int8", 0), ("int8", 64), ("int4", 32), ("int4", 128))

Body = Callable[..., Any]


def weight(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def constant(values: Any) -> Any:
    return relax.const(tvm.runtime.tensor(values))


# What NarrowWeights must store, written without its code: one number after the other.


def rounded_to_bfloat16(values: Any) -> Any:
    """Return the nearest numbers whose lower half is zero, the even one of two equally near."""
    bits = values.view("uint32").astype("uint64")
    low, high = bits & 0xFFFF, bits >> 16
    up = (low > 0x8000) | ((low == 0x8000) & (high % 2 == 1))
    return ((high + up) << 16).astype("uint32").view("float32")


def rounded_by_columns(values: Any, summed: Sequence[int]) -> Any:
    scale = (np.abs(values).max(axis=tuple(summed), keepdims=True) / np.float32(127)).astype("float32")
    safe = np.where(scale == 0, np.float32(1), scale)
    return np.clip(np.round(values / safe), -127, 127), scale


def rounded_by_groups(values: Any, axis: int, *, name: str, group: int) -> Any:
    result = np.empty_like(values)
    source, target = np.moveaxis(values, axis, 0), np.moveaxis(result, axis, 0)
    for begin in range(0, source.shape[0], group):
        part = source[begin : begin + group].reshape(group, -1)
        for column in range(part.shape[1]):
            numbers = part[:, column]
            extreme = numbers[np.argmax(np.abs(numbers))]
            scale = (
                np.float32(extreme / np.float32(-8)) if name == "int4" else np.float32(abs(extreme) / np.float32(127))
            )
            least, most = (-8, 7) if name == "int4" else (-127, 127)
            integers = np.clip(np.round(numbers / scale), least, most) if scale else np.zeros_like(numbers)
            part[:, column] = integers * scale
        target[begin : begin + group] = part.reshape(group, *source.shape[1:])
    return result


def emulated(values: Any, name: str, group: int, *, summed: Sequence[int], axis: int) -> Any:
    """Return float32 weights of the values that are stored."""
    if name == "bfloat16":
        return rounded_to_bfloat16(values)
    if name == "float16":
        return values.astype("float16").astype("float32")
    if group:
        return rounded_by_groups(values, axis, name=name, group=group)
    numbers, scale = rounded_by_columns(values, summed)
    return numbers * scale


def stored(module: Any) -> list[Any]:
    """Return the constants of main, each once."""
    found: dict[int, Any] = {}

    def visit(constant: Any) -> None:
        found[constant.value.__chandle__()] = constant.value.numpy()

    tvm_ffi.structural_walk(module["main"], (tvm.ir.GenericConst, visit))
    return list(found.values())


def read_back(arrays: Sequence[Any], name: str, group: int, *, summed: Sequence[int], axis: int) -> Any:
    """Return the float32 weights that stored arrays mean."""
    numbers = arrays[0]
    if name == "bfloat16":
        return (numbers.view("uint16").astype("uint32") << 16).view("float32")
    if name == "float16":
        return numbers.astype("float32")
    if not group:
        return numbers.astype("float32") * np.expand_dims(arrays[1], tuple(summed))
    bits = 4 if name == "int4" else 8
    count = 32 // bits
    words = np.ascontiguousarray(np.moveaxis(numbers, axis, 0)).view("uint32")
    groups = words.reshape(-1, group // count + 1, *words.shape[1:])
    scale = np.ascontiguousarray(groups[:, -1:]).view("float32")
    parts = []
    for row in range(group // count):
        for place in range(count):
            value = ((groups[:, row] >> np.uint32(place * bits)) & np.uint32(2**bits - 1)).astype("int64")
            if place < count - 1:
                value -= 2 ** (bits - 1)
            else:
                value = np.where(value >= 2 ** (bits - 1), value - 2**bits, value)
            parts.append(value.astype("float32"))
    result = np.stack(parts, axis=1) * scale
    return np.moveaxis(result.reshape(-1, *words.shape[1:]), 0, axis)


PASSES = (
    transform.LegalizeOps(),
    transform.AnnotateTIROpPattern(),
    transform.FoldConstant(),
    transform.FuseOps(2),
    transform.FuseTIR(),
)


def fused(module: Any) -> Any:
    for each in PASSES:
        module = each(module)
    return module


def narrow(module: Any, **arguments: Any) -> Any:
    with TARGET:
        return NarrowWeights(**arguments)(module)


def scheduled(module: Any) -> Any:
    with TARGET:
        return ScheduleCPU()(module)


def notes(module: Any) -> dict[str, list[str]]:
    return {
        name.name_hint: [str(line) for line in function.attrs[NOTES]]
        for name, function in module.functions_items()
        if function.attrs and NOTES in function.attrs
    }


def product(rows: int, summed: int, columns: int) -> tuple[Any, Any, dict[str, Any]]:
    values = weight(summed, columns)
    bias = constant(weight(columns))

    def body(data: Any, used: Any) -> Any:
        return op.nn.relu(op.add(op.matmul(data, constant(used)), bias))

    return (rows, summed), values, {"body": body, "summed": (0,), "axis": 0}


def bare_product(rows: int, summed: int, columns: int) -> tuple[Any, Any, dict[str, Any]]:
    shape, values, layout = product(rows, summed, columns)
    return shape, values, {**layout, "body": lambda data, used: op.matmul(data, constant(used))}


def transposed_product(rows: int, summed: int, columns: int) -> tuple[Any, Any, dict[str, Any]]:
    """The weights keep their stored form, as after ``FuseTransposeMatmul``."""
    values = weight(columns, summed)

    def body(data: Any, used: Any) -> Any:
        return op.matmul(data, op.permute_dims(constant(used)))

    return (rows, summed), values, {"body": body, "summed": (0,), "axis": 0, "transposed": True}


def convolution(size: int, channels: int, outputs: int, *, groups: int = 1) -> tuple[Any, Any, dict[str, Any]]:
    values = weight(outputs, channels // groups, 3, 3)

    def body(data: Any, used: Any) -> Any:
        return op.nn.relu(op.nn.conv2d(data, constant(used), padding=1, groups=groups))

    return (1, channels, size, size), values, {"body": body, "summed": (1, 2, 3), "axis": 1}


def channels_last(size: int, channels: int, outputs: int) -> tuple[Any, Any, dict[str, Any]]:
    values = weight(3, 3, channels, outputs)

    def body(data: Any, used: Any) -> Any:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO", "out_layout": "NHWC"}
        return op.add(op.nn.conv2d(data, constant(used), padding=1, **layouts), constant(np.ones(outputs, "float32")))

    return (1, size, size, channels), values, {"body": body, "summed": (0, 1, 2), "axis": 2}


def batch_of_products() -> tuple[Any, Any, dict[str, Any]]:
    values = weight(4, 128, 96)
    return (4, 3, 128), values, {"body": lambda data, used: op.matmul(data, constant(used)), "summed": (1,), "axis": 1}


FITTING: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "one row": product(1, 384, 256),
    "two rows": product(2, 384, 256),
    "sixteen rows": product(16, 384, 256),
    "columns that no tile divides": product(5, 256, 203),
    "one row of columns that no tile divides": product(1, 256, 203),
    "no bias": bare_product(3, 256, 128),
    "transposed weights": transposed_product(3, 256, 128),
    "convolution": convolution(7, 128, 64),
    "grouped convolution": convolution(7, 256, 128, groups=2),
    "channels last": channels_last(7, 128, 64),
    "batch of products": batch_of_products(),
}


def fitting(name: str, storage: str, group: int) -> None:
    shape, values, layout = FITTING[name]
    body, summed, axis = layout["body"], layout["summed"], layout["axis"]
    data = RANDOM.standard_normal(shape).astype("float32")
    before = fused(network(shape, lambda each: body(each, values), "float32"))
    after = narrow(before, storage=storage, **({"group": group} if group else {}))
    own = np.ascontiguousarray(values.T) if layout.get("transposed") else values
    expected = emulated(own.copy(), storage, group, summed=summed, axis=axis)
    arrays = [each for each in stored(after) if str(each.dtype) != "float32"]
    scales = [
        each
        for each in stored(after)
        if str(each.dtype) == "float32" and each.size == own.size // np.prod([own.shape[each] for each in summed])
    ]
    read = read_back([*arrays, *scales[:1]], storage, group, summed=summed, axis=axis)
    used = np.ascontiguousarray(expected.T) if layout.get("transposed") else expected
    reference = run(scheduled(fused(network(shape, lambda each: body(each, used), "float32"))), data, TARGET)
    result = run(scheduled(after), data, TARGET)
    plain = run(after, data, TARGET)
    print(
        json.dumps(
            {
                "case": name,
                "kind": "fitting",
                "storage": storage,
                "group": group,
                "stored": bool(np.array_equal(read, expected)),
                "deviation": float(np.abs(result - reference).max() / np.abs(reference).max()),
                "unscheduled": float(np.abs(plain - reference).max() / np.abs(reference).max()),
                "bytes": sum(each.nbytes for each in arrays) / own.nbytes,
                "well_formed": bool(relax.analysis.check_well_formed(after)),
                "notes": notes(after),
            }
        )
    )


def report(case: str, module: Any, **arguments: Any) -> None:
    after = narrow(module, **arguments)
    kinds = sorted(str(each.dtype) for each in stored(after))
    same = bool(tvm_ffi.structural_equal(module, after))
    print(json.dumps({"case": case, "kind": "notes", "notes": notes(after), "types": kinds, "same": same}))


def refused() -> None:
    """Weights that stay float32."""
    plain = weight(128, 256)
    broken, large = plain.copy(), plain * np.float32(1e5)
    broken[3, 5] = np.nan

    def of(values: Any, shape: Sequence[int] = (2, 128)) -> Any:
        return fused(network(shape, lambda data: op.matmul(data, constant(values)), "float32"))

    report("nan", of(broken), storage="int8")
    report("infinite", of(np.where(plain > 3, np.float32(np.inf), plain)), storage="bfloat16")
    report("large", of(large), storage="float16")
    report("largest", of(plain * np.float32(4e37)), storage="bfloat16")
    report("large in bfloat16", of(large), storage="bfloat16")
    report("odd sum", of(weight(127, 256), (2, 127)), storage="int4")
    report("other group", of(weight(144, 256), (2, 144)), storage="int4")
    report("small", of(weight(32, 32), (2, 32)), storage="int8")
    report("nothing asked for", of(plain))
    half, short = plain.astype("float16").astype("float32"), rounded_to_bfloat16(plain)
    report("exact float16", of(half), storage="exact")
    report("exact bfloat16", of(short * np.float32(2.0**90)), storage="exact")
    report("not exact", of(plain), storage="exact")
    layers = [np.zeros((128, 128), "float32"), half[:, :128]]  # both types have zeros
    twice = network(
        (2, 128), lambda each: op.matmul(op.matmul(each, constant(layers[0])), constant(layers[1])), "float32"
    )
    report("exact in two layers", fused(twice), storage="exact")
    report("16 rows", of(half, (16, 128)), storage="exact")
    report("17 rows", of(half, (17, 128)), storage="exact")
    report("another kernel", of(plain), storage="int8", kernels={"matmul": {}})
    report("one kernel", of(plain), kernels={"matmul": {"storage": "int4", "group": 64}})
    depthwise = weight(2048, 1, 3, 3)
    report(
        "depthwise",
        fused(network((1, 2048, 4, 4), lambda each: op.nn.conv2d(each, constant(depthwise), groups=2048), "float32")),
        storage="int8",
    )
    table = weight(256, 128)
    report(
        "no product", fused(network((256, 128), lambda each: op.add(each, constant(table)), "float32")), storage="int8"
    )


def tables() -> None:
    """Look-ups of rows."""
    values = weight(300, 96)
    rows = np.array([3, 299, 0, 7, 3], "float32")

    def look_up(data: Any, used: Any) -> Any:
        return op.multiply(op.take(constant(used), op.astype(data, "int64"), axis=0), relax.const(np.float32(2)))

    for storage, group in STORAGES:
        arguments = {"storage": storage, **({"group": group} if group else {})}
        own, name = ("int8", 0) if group else (storage, 0), storage
        expected = 2 * emulated(values.copy(), own[0], 0, summed=(1,), axis=1)[rows.astype(int)]
        after = narrow(fused(network((5,), lambda data: look_up(data, values), "float32")), **arguments)
        deviation = np.abs(run(scheduled(after), rows, TARGET) - expected).max() / np.abs(expected).max()
        case = {"case": name, "kind": "table", "notes": list(notes(after).values()), "deviation": float(deviation)}
        print(json.dumps(case))


def coarser() -> None:
    """Sums of which no group up to that of the storage is a divisor, and a larger one is."""
    values = weight(40, 416)
    for rows in (1, 3):
        data = RANDOM.standard_normal((rows, 40)).astype("float32")
        after = narrow(
            fused(network((rows, 40), lambda each: op.matmul(each, constant(values)), "float32")), storage="int4"
        )
        expected = data.astype("float64") @ emulated(values.copy(), "int4", 40, summed=(0,), axis=0)
        deviation = float(np.abs(run(scheduled(after), data, TARGET) - expected).max() / np.abs(expected).max())
        print(json.dumps({"case": rows, "kind": "coarser", "notes": notes(after), "deviation": deviation}))


def special() -> None:
    """Zero columns, shared weights, merged products, open sizes and a file."""
    zero = weight(128, 256)
    zero[:, 7] = 0
    data = RANDOM.standard_normal((2, 128)).astype("float32")
    for storage, group in STORAGES:
        module = fused(network((2, 128), lambda each: op.matmul(each, constant(zero)), "float32"))
        result = run(scheduled(narrow(module, storage=storage, **({"group": group} if group else {}))), data, TARGET)
        others = bool(np.abs(result[:, 6]).min() > 0 and np.isfinite(result).all())
        print(
            json.dumps({"case": storage, "kind": "zero", "is_zero": bool((result[:, 7] == 0).all()), "others": others})
        )

    shared = constant(weight(256, 256))
    twice = fused(network((2, 256), lambda each: op.matmul(op.exp(op.matmul(each, shared)), shared), "float32"))
    print(
        json.dumps(
            {
                "case": "shared",
                "kind": "shared",
                "arrays": [str(each.dtype) for each in stored(narrow(twice, storage="int8"))],
            }
        )
    )

    values = [weight(128, 128) for _ in range(3)]
    merged = network(
        (2, 128), lambda each: op.concat([op.matmul(each, constant(value)) for value in values], axis=-1), "float32"
    )
    merged = fused(MergeProducts(merge=True)(merged))
    narrowed = narrow(merged, storage="bfloat16")
    exact = np.concatenate([data @ rounded_to_bfloat16(value) for value in values], axis=-1)
    result = run(scheduled(narrowed), data, TARGET)
    deviation = float(np.abs(result - exact).max() / np.abs(exact).max())
    print(json.dumps({"case": "merged", "kind": "merged", "notes": notes(narrowed), "deviation": deviation}))

    own = weight(128, 256)
    rows = tirx.Var("rows", "int64")
    for storage, group in STORAGES:
        module = fused(network((rows, 128), lambda each: op.nn.relu(op.matmul(each, constant(own))), "float32"))
        after = scheduled(narrow(module, storage=storage, **({"group": group} if group else {})))
        expected = emulated(own.copy(), storage, group, summed=(0,), axis=0)
        worst = 0.0
        for count in (1, 7, 32):
            data = RANDOM.standard_normal((count, 128)).astype("float32")
            exact = np.maximum(data @ expected, 0)
            worst = max(worst, float(np.abs(run(after, data, TARGET) - exact).max() / np.abs(exact).max()))
        print(json.dumps({"case": f"{storage} {group}", "kind": "open", "deviation": worst, "notes": notes(after)}))

    large = fused(network((1, 1024), lambda each: op.matmul(each, constant(weight(1024, 1024))), "float32"))
    for storage in ("float32", "bfloat16", "float16", "int8", "int4"):
        with TARGET, tempfile.TemporaryDirectory() as folder:
            lowered = lower(scheduled(narrow(large, storage=storage)), level=0, target=TARGET)
            path = Path(folder) / "network.so"
            relax.build(lowered, TARGET, relax_pipeline=None).export_library(str(path))
            print(json.dumps({"case": storage, "kind": "file", "bytes": path.stat().st_size}))


def calls() -> None:
    """Two layers of one function, the second of which alone is narrow."""
    first, second = weight(256, 256), weight(256, 256)
    data = RANDOM.standard_normal((2, 256)).astype("float32")

    def layers(values: Any) -> Any:
        body = lambda each: op.matmul(op.matmul(each, constant(first)), constant(values))  # noqa: E731
        return fused(network((2, 256), body, "float32"))

    module = layers(second)
    for storage, group in STORAGES:
        own = {"storage": storage, **({"group": group} if group else {})}
        after = narrow(module, kernels={"matmul:1": own})
        expected = emulated(second.copy(), storage, group, summed=(0,), axis=0)
        reference = run(scheduled(layers(expected)), data, TARGET)
        deviation = np.abs(run(scheduled(after), data, TARGET) - reference).max() / np.abs(reference).max()
        name, number, call = list(numbered_calls(module))[1]
        values, _, lines = rounded_weights(module[call.args[0]], {1: call.args[1].fields[1]}, storage_of(own))
        case = {"case": f"{name}:{number}", "kind": "calls", "deviation": float(deviation), "lines": lines}
        print(json.dumps({**case, "rounded": bool(np.array_equal(values[1], expected)), "notes": notes(after)}))


def two_storages() -> None:
    """Two layers of one function, each in another storage."""
    values, data = [weight(256, 256), weight(256, 256)], RANDOM.standard_normal((2, 256)).astype("float32")

    def layers(*used: Any) -> Any:
        body = lambda each: op.matmul(op.matmul(each, constant(used[0])), constant(used[1]))  # noqa: E731
        return fused(network((2, 256), body, "float32"))

    own = {f"matmul:{call}": {"storage": storage} for call, storage in enumerate(("bfloat16", "int4"))}
    after = narrow(layers(*values), kernels=own)
    rounded = [emulated(values[0].copy(), "bfloat16", 0, summed=(0,), axis=0)]
    rounded.append(emulated(values[1].copy(), "int4", 32, summed=(0,), axis=0))
    expected = run(scheduled(layers(*rounded)), data, TARGET)
    deviation = np.abs(run(scheduled(after), data, TARGET) - expected).max() / np.abs(expected).max()
    case = {"case": "two storages", "kind": "two storages", "deviation": float(deviation)}
    print(json.dumps({**case, "kernels": kernel_calls(after)}))


def unchanged() -> None:
    """A pass that is asked for nothing leaves kernels and weights as they are, so that float32 has its old binary."""
    module = fused(network((2, 256), lambda each: op.matmul(each, constant(weight(256, 256))), "float32"))
    for arguments in ({}, {"storage": "float32"}, {"kernels": {}}, {"storage": "int8"}):
        after = narrow(module, **arguments)
        is_equal = tvm_ffi.structural_equal(scheduled(module), scheduled(after))
        print(json.dumps({"case": str(arguments), "kind": "unchanged", "is_equal": bool(is_equal)}))


def wrong() -> None:
    module = fused(network((2, 128), lambda each: op.matmul(each, constant(weight(128, 256))), "float32"))
    cases: dict[str, dict[str, Any]] = {
        "storage": {"storage": "int2"},
        "group": {"storage": "int8", "group": 20},
        "columns of int4": {"storage": "int4", "group": 0},
        "kernel": {"storage": "int8", "kernels": {"convolution": {}}},
        "parameter": {"storage": "int8", "kernels": {"matmul": {"rows": 4}}},
        "call": {"kernels": {"matmul:5": {"storage": "int8"}}},
        "number": {"kernels": {"matmul:last": {"storage": "int8"}}},
    }
    for name, arguments in cases.items():
        try:
            narrow(module, **arguments)
            error = ""
        except ValueError as raised:
            error = str(raised)
        print(json.dumps({"case": name, "kind": "wrong", "error": error}))


if __name__ == "__main__":
    for case, storage in list(itertools.product(FITTING, STORAGES))[:: int(sys.argv[1])]:
        fitting(case, *storage)
    refused()
    tables()
    coarser()
    special()
    calls()
    two_storages()
    unchanged()
    wrong()
