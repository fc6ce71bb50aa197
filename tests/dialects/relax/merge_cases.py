"""Runs networks with and without ``MergeProducts`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_merge_products.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.combine_products import CombineParallelMatmul
from passsearch.standalone.relax.graph_rewrites.merge_products import MergeProducts, regions

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64"))
RANDOM = np.random.default_rng(0)

Body = Callable[..., Any]


def weight(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(tvm.runtime.tensor(RANDOM.standard_normal(shape).astype(dtype)))


def products(columns: Sequence[int], *, biases: Sequence[int] = (), bias_first: bool = False, rank: int = 1) -> Body:
    """Return a network of products of one operand; those with a place in ``biases`` have a bias."""

    def body(value: Any) -> Any:
        parts = []
        for place, number in enumerate(columns):
            part = op.matmul(value, weight(16, number))
            if place in biases:
                bias = weight(*[1] * (rank - 1), number)
                part = op.add(bias, part) if bias_first else op.add(part, bias)
            parts.append(op.nn.relu(part))
        return op.concat(parts, axis=-1)

    return body


def biases_of_rank_three(value: Any) -> Any:
    parts = [op.add(op.matmul(value, weight(16, 8)), weight(1, 1, 8)) for _ in range(2)]
    return op.concat(parts, axis=0)


def same_weights(value: Any) -> Any:
    weights = weight(16, 8)
    return op.subtract(op.matmul(value, weights), op.multiply(op.matmul(value, weights), weight(8)))


def two_layers(value: Any) -> Any:
    first = op.concat([op.matmul(value, weight(16, 8)), op.matmul(value, weight(16, 8))], axis=-1)
    return op.concat([op.matmul(first, weight(16, 8)), op.matmul(first, weight(16, 24))], axis=-1)


def sum_of_product_and_bias(value: Any) -> Any:
    first, second = op.matmul(value, weight(16, 8)), op.matmul(value, weight(16, 8))
    # The product itself is read, too, so that it is not only part of its addition.
    return op.concat([op.add(first, weight(8)), first, op.add(second, weight(8))], axis=-1)


FITTING: dict[str, tuple[tuple[int, ...], Body, int]] = {
    "three products": ((4, 16), products((8, 8, 8)), 1),
    "different columns": ((4, 16), products((8, 20, 3)), 1),
    "biases": ((2, 5, 16), products((8, 24), biases=(0, 1)), 1),
    "biases first": ((4, 16), products((8, 24), biases=(0, 1), bias_first=True), 1),
    "bias of one": ((4, 16), products((8, 24), biases=(1,)), 1),
    "product that is read twice": ((4, 16), sum_of_product_and_bias, 1),
    "biases of rank three": ((4, 16), biases_of_rank_three, 1),
    "biases of rank two": ((4, 16), products((8, 24), biases=(0, 1), rank=2), 1),
    "same weights": ((4, 16), same_weights, 1),
    "two layers": ((4, 16), two_layers, 2),
}
"""Input, network and number of products that are left, by name."""

UNFITTING: dict[str, tuple[tuple[int, ...], Body]] = {
    "one product": ((4, 16), products((8,))),
    "computed weights": (
        (16, 16),
        lambda value: op.add(op.matmul(value, op.exp(value)), op.matmul(value, op.tanh(value))),
    ),
    "other operands": (
        (4, 16),
        lambda value: op.add(op.matmul(value, weight(16, 8)), op.matmul(op.exp(value), weight(16, 8))),
    ),
    "weights on the left": (
        (16, 4),
        lambda value: op.add(op.matmul(weight(8, 16), value), op.matmul(weight(8, 16), value)),
    ),
    "weights by batch": (
        (3, 4, 16),
        lambda value: op.add(op.matmul(value, weight(3, 16, 8)), op.matmul(value, weight(3, 16, 8))),
    ),
}

WRONG: dict[str, dict[str, Any]] = {
    "value of two": {"groups": {"0": 2}},
    "place without a group": {"groups": {"2": 1}},
    "negative place": {"groups": {"-1": 1}},
}
"""Arguments that the pass refuses, for the network of two layers."""


def loops(module: Any) -> Any:
    fusion = (transform.AnnotateTIROpPattern(), transform.FuseOps(fuse_opt_level=2), transform.FuseTIR())
    return ScheduleCPU()(tvm.transform.Sequential((transform.LegalizeOps(), *fusion))(module))


def product_count(module: Any) -> int:
    return int(module.script().count("R.matmul("))


def fitting_case(name: str) -> dict[str, Any]:
    shape, body, _ = FITTING[name]
    plain = network(shape, body, "float32")
    value = RANDOM.standard_normal(shape).astype("float32")
    with TARGET, tvm.transform.PassContext(opt_level=4):
        merged = MergeProducts(merge=True)(plain)
        expected, actual = run(loops(plain), value, TARGET), run(loops(merged), value, TARGET)
    return {
        "products": product_count(merged),
        "expected": FITTING[name][2],
        "well_formed": bool(relax.analysis.check_well_formed(merged)),
        "deviation": float(np.abs(actual - expected).max() / np.abs(expected).max()),
    }


def unfitting_case(name: str) -> dict[str, Any]:
    plain = network(*UNFITTING[name], "float32")
    unchanged = tvm_ffi.structural_equal(plain, MergeProducts(merge=True)(plain))
    return {"unchanged": bool(unchanged), "regions": len(regions(plain))}


def single_case() -> dict[str, Any]:
    """Merge only the second of two groups, and all but the second."""
    module = network((4, 16), two_layers, "float32")
    only, but = MergeProducts({"1": 1})(module), MergeProducts({"1": 0}, merge=True)(module)
    few = [MergeProducts(merge=True, most_rows=rows)(module) for rows in (3, 4)]
    return {
        "left": [product_count(each) for each in (only, but)],
        "up to 3 and 4 rows": [product_count(each) for each in few],
        "regions": regions(module),
    }


def constant_left_case() -> dict[str, Any]:
    """TVM's own pass for products has nothing to combine here, and fails without its variables."""
    plain = network((16, 4), lambda data: op.nn.relu(op.matmul(weight(8, 16), data)), "float32")
    return {"unchanged": bool(tvm_ffi.structural_equal(plain, CombineParallelMatmul()(plain)))}


def wrong_case(name: str) -> dict[str, Any]:
    try:
        MergeProducts(**WRONG[name])(network((4, 16), two_layers, "float32"))
    except ValueError as error:
        return {"error": str(error)}
    return {"error": ""}


if __name__ == "__main__":
    for case in FITTING:
        print(json.dumps({"case": case, "kind": "fitting", **fitting_case(case)}))
    for case in UNFITTING:
        print(json.dumps({"case": case, "kind": "unfitting", **unfitting_case(case)}))
    for case in WRONG:
        print(json.dumps({"case": case, "kind": "wrong", **wrong_case(case)}))
    print(json.dumps({"case": "second of two", "kind": "single", **single_case()}))
    print(json.dumps({"case": "constant on the left", "kind": "left", **constant_left_case()}))
