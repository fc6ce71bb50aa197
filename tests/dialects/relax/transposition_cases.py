"""Cancels transpositions of small networks and prints one JSON line per network, and one for random moves.

A script for an interpreter with TVM's Relax: ``test_cancel_transpositions.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from small_modules import network, run
from tvm import relax
from tvm.relax import op

from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.cancel_transpositions import CancelTranspositions, keep_order

TARGET = tvm.target.Target(target_options("llvm"))
RANDOM = np.random.default_rng(0)


def image(tokens: Any) -> Any:
    return op.reshape(op.permute_dims(tokens, [0, 2, 1]), (1, 8, 14, 14))


def double_use(value: Any) -> Any:
    """The transposed tokens are needed as they are, too."""
    turned = op.permute_dims(value, [0, 2, 1])
    back = op.permute_dims(op.reshape(turned, (1, 8, 14, 14)), [0, 2, 3, 1])
    return op.add(op.reshape(back, (1, 196, 8)), op.permute_dims(op.exp(turned), [0, 2, 1]))


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "tokens as an image": ((1, 196, 8), lambda value: op.exp(op.permute_dims(image(value), [0, 2, 3, 1]))),
    "there and back": (
        (1, 14, 14, 8),
        lambda value: op.permute_dims(op.reshape(op.permute_dims(value, [0, 3, 1, 2]), (1, 8, 196)), [0, 2, 1]),
    ),
    "result of the same shape": ((4, 6), lambda value: op.permute_dims(op.permute_dims(value))),
    "used twice": ((1, 196, 8), double_use),
    "heads": ((1, 6, 8), lambda value: op.permute_dims(op.reshape(value, (1, 6, 2, 4)), [0, 2, 1, 3])),
    "another image": ((1, 196, 8), lambda value: op.permute_dims(image(value), [0, 3, 2, 1])),
    "no elements": ((4, 0), lambda value: op.permute_dims(op.permute_dims(value))),
    "reshapes alone": ((4, 6), lambda value: op.reshape(op.reshape(value, (2, 12)), (24,))),
}


def two_blocks() -> Any:
    """Return a network whose second block turns back what the first one turned, and where more reads its variable."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 6, 8), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            turned = builder.emit_output(op.permute_dims(builder.emit(op.exp(data)), [0, 2, 1]))
        with builder.dataflow():
            result = builder.emit_output(op.exp(builder.emit(op.permute_dims(turned, [0, 2, 1]))))
        builder.emit_func_output(result)
    return builder.get()


def case(shape: tuple[int, ...], module: Any) -> dict[str, Any]:
    after = CancelTranspositions()(module)
    value = RANDOM.standard_normal(shape).astype("float32")
    return {
        "transpositions": [each.script().count("R.permute_dims(") for each in (module, after)],
        "well formed": bool(relax.analysis.check_well_formed(after)),
        "same": bool(np.array_equal(run(module, value, TARGET), run(after, value, TARGET))),
    }


def random_moves(rng: random.Random) -> tuple[tuple[int, ...], list[tuple[bool, Sequence[int]]]]:
    """Return a shape and moves, many of which undo each other."""
    shape = sizes = tuple(rng.choice((1, 2, 3, 4, 6)) for _ in range(rng.randint(1, 4)))
    moves: list[tuple[bool, Sequence[int]]] = []
    for _ in range(rng.randint(1, 5)):
        if rng.random() < 0.5:
            axes = rng.sample(range(len(sizes)), len(sizes))
            moves.append((True, axes))
            sizes = tuple(sizes[axis] for axis in axes)
        else:
            first = rng.randrange(len(sizes) + 1)
            sizes = rng.choice(
                [(math.prod(sizes[:first]), math.prod(sizes[first:])), (*sizes[:first], 1, *sizes[first:]), shape]
            )
            moves.append((False, sizes))
    return shape, moves


def agreement(number: int) -> dict[str, Any]:
    """Count random moves by whether numpy's elements keep their order and whether the pass says so."""
    rng, counts = random.Random(0), {"kept": 0, "found": 0, "wrong": 0}
    for _ in range(number):
        shape, moves = random_moves(rng)
        first = array = np.arange(math.prod(shape)).reshape(shape)
        for is_transposition, values in moves:
            array = array.transpose(values) if is_transposition else array.reshape(values)
        kept, found = bool(np.array_equal(array.ravel(), first.ravel())), keep_order(shape, moves)
        counts["kept"] += kept
        counts["found"] += kept and found
        counts["wrong"] += found and not kept
    return counts


if __name__ == "__main__":
    for name, (shape, body) in NETWORKS.items():
        print(json.dumps({"case": name, **case(shape, network(shape, body, "float32"))}), flush=True)
    print(json.dumps({"case": "two blocks", **case((1, 6, 8), two_blocks())}), flush=True)
    print(json.dumps({"case": "random moves", **agreement(5000)}), flush=True)
