"""Asks of small networks of open sizes whether they may be padded, pads them, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_padding.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.dialects.relax.padding import prove_padding
from passsearch.dialects.relax.recurrence.cell import Recurrence
from passsearch.dialects.relax.recurrence.layer import Weights, recurrent_layer

SMALL, LARGE, WIDTH = 5, 8, 4
PAIRS = [
    [{"x": (1, small, WIDTH), "mask": (1, small)}, {"x": (1, large, WIDTH), "mask": (1, large)}]
    for small, large in ((SMALL, LARGE), (1, LARGE), (7, LARGE))
]
LENGTH = tirx.Var("length", "int64")


def number(value: float) -> Any:
    return relax.const(value, "float32")


def scores(x: Any) -> Any:
    return op.matmul(x, op.permute_dims(x, [0, 2, 1]))


def hiding(mask: Any, lowest: float = -1e9) -> Any:
    return op.multiply(op.subtract(number(1.0), op.astype(op.expand_dims(mask, [1]), "float32")), number(lowest))


def attend(hidden: Any, x: Any) -> Any:
    return op.matmul(op.nn.softmax(hidden, -1), x)


def causal(lowest: float = -1e9) -> Any:
    places = op.arange(0, LENGTH, 1, "int64")
    later = op.greater(op.expand_dims(places, [0]), op.expand_dims(places, [1]))
    return op.multiply(op.astype(later, "float32"), number(lowest))


def both(x: Any, mask: Any) -> Any:
    shown = op.logical_and(op.astype(op.expand_dims(mask, [1]), "bool"), op.equal(causal(), number(0.0)))
    return attend(op.where(shown, scores(x), number(-1e9)), x)


def nested(x: Any, mask: Any) -> Any:
    early = op.broadcast_to(op.expand_dims(op.equal(causal(), number(0.0)), [0]), (1, LENGTH, LENGTH))
    shown = op.broadcast_to(op.astype(op.expand_dims(mask, [1]), "bool"), (1, LENGTH, LENGTH))
    return attend(op.where(shown, op.where(early, scores(x), number(-1e9)), number(-1e9)), x)


def weighted(x: Any, mask: Any) -> Any:
    return op.multiply(x, op.expand_dims(op.astype(mask, "float32"), [2]))


def pooled(x: Any, mask: Any) -> Any:
    count = op.sum(op.astype(mask, "float32"), [1], keepdims=True)
    return op.divide(op.sum(weighted(x, mask), [1]), count)


def placed(x: Any, mask: Any) -> Any:
    table = relax.const(np.arange(16 * WIDTH, dtype="float32").reshape(16, WIDTH))
    places = op.strided_slice(relax.const(np.arange(16)[None]), [1], [0], [LENGTH])
    return attend(op.add(scores(x), hiding(mask)), op.add(x, op.take(table, op.reshape(places, (LENGTH,)), 0)))


def chosen(x: Any, mask: Any) -> Any:
    shown = op.broadcast_to(op.astype(op.expand_dims(mask, [1]), "bool"), (1, LENGTH, LENGTH))
    return attend(op.where(shown, scores(x), number(-np.inf)), x)


def convolved(x: Any, mask: Any) -> Any:
    weight = relax.const(np.ones((WIDTH, WIDTH, 3), "float32"))
    return op.nn.conv1d(op.permute_dims(op.add(x, number(1.0)), [0, 2, 1]), weight, padding=1)


def by_length(x: Any, mask: Any) -> Any:
    length = op.astype(op.shape_to_tensor(relax.ShapeExpr([LENGTH])), "float32")
    return op.divide(op.sum(weighted(x, mask), [1]), length)


PROVEN: dict[str, Callable[[Any, Any], Any]] = {
    "masked attention": lambda x, mask: attend(op.add(scores(x), hiding(mask)), x),
    "attention of chosen scores": chosen,
    "causal attention": lambda x, mask: attend(op.add(scores(x), causal()), x),
    "causal attention with a mask": lambda x, mask: attend(op.add(op.add(scores(x), causal()), hiding(mask)), x),
    "places and attention": placed,
    "pooled by a mask": pooled,
    "first token": lambda x, mask: op.take(attend(op.add(scores(x), hiding(mask)), x), relax.const(0), 1),
    "rows": lambda x, mask: op.nn.relu(op.matmul(x, relax.const(np.ones((WIDTH, 3), "float32")))),
    "running sums": lambda x, mask: op.cumsum(x, 1),
    "heads": lambda x, mask: op.permute_dims(op.reshape(x, (1, LENGTH, 2, 2)), [0, 2, 1, 3]),
}


def recurrent(x: Any, _mask: Any) -> Any:
    builder, rng, plain = relax.BlockBuilder.current(), np.random.default_rng(0), (("Tanh", ()),)
    shapes = ((2, 3, WIDTH), (2, 3, 3), (2, 6))
    weights = [relax.const(rng.standard_normal(shape, "float32")) for shape in shapes]
    first = builder.emit(op.permute_dims(x, [1, 0, 2]))
    layer = Recurrence("RNN", 3, (False, True), (plain, plain))
    y, _ = recurrent_layer(builder, layer, first, Weights(*weights), starts=[None], lengths=None)
    return op.permute_dims(y, [2, 0, 1, 3])


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "attention without a mask": lambda x, mask: attend(scores(x), x),
    "attention with a weak mask": lambda x, mask: attend(op.add(scores(x), hiding(mask, -1.0)), x),
    "causal attention of what is shown": both,
    "one mask in another": nested,
    "a mask that is taken back": lambda x, mask: attend(
        op.add(op.add(scores(x), hiding(mask, -1e4)), hiding(mask, 1e4)), x
    ),
    "nothing over nothing": lambda x, mask: op.sum(
        op.multiply(op.divide(weighted(x, mask), weighted(x, mask)), weighted(x, mask)), [1]
    ),
    "mean": lambda x, mask: op.mean(x, [1]),
    "maximum": lambda x, mask: op.max(op.negative(op.abs(x)), [1]),
    "last token": lambda x, mask: op.take(x, relax.const(-1), 1, mode="wrap"),
    "recurrent layer": recurrent,
    "reversed": lambda x, mask: op.flip(x, 1),
    "convolution": convolved,
    "sum by the length": by_length,
    "one row of all": lambda x, mask: op.reshape(x, (1, LENGTH * WIDTH)),
    "sum of what is not masked": lambda x, mask: op.sum(op.add(weighted(x, mask), number(1.0)), [1]),
    "normalized over positions": lambda x, mask: op.nn.layer_norm(
        op.permute_dims(x, [0, 2, 1]), op.ones((LENGTH,), "float32"), op.zeros((LENGTH,), "float32"), [-1]
    ),
}


def module(body: Callable[[Any, Any], Any]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, LENGTH, WIDTH], "float32"))
    mask = relax.Var("mask", relax.TensorType([1, LENGTH], "int64"))
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            result = builder.emit_output(body(x, mask))
        builder.emit_func_output(result)
    return builder.get()


def run(network: tvm.IRModule, x: Any, mask: Any) -> Any:
    built = tvm.compile(transform.LegalizeOps()(network), "llvm")
    machine = relax.VirtualMachine(built, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(mask)).numpy()


def deviation(network: tvm.IRModule, outputs: Any) -> float:
    """Return by how much a padded call deviates, its outputs cut as the proof says or like the smaller ones."""
    rng = np.random.default_rng(0)
    x, mask = rng.standard_normal((1, SMALL, WIDTH), "float32"), np.array([[0, 1, 0, 1, 1]])
    more = LARGE - SMALL
    padded = run(network, np.pad(x, ((0, 0), (0, more), (0, 0))), np.pad(mask, ((0, 0), (0, more))))
    expected = run(network, x, mask)
    sizes = list(padded.shape)
    for axis, (name, place) in (outputs or [{}])[0].items():
        sizes[int(axis)] = {"x": x, "mask": mask}[name].shape[place]
    sizes = sizes if outputs else list(expected.shape)
    return float(np.abs(padded[tuple(map(slice, sizes))] - expected).max())


for place, (name, body) in enumerate({**PROVEN, **REFUSED}.items()):
    network = module(body)
    proof = prove_padding(network, "main", PAIRS)
    row = {"case": name, "proven": name in PROVEN, **proof}
    if place % int(sys.argv[1]) == 0:
        row["deviation"] = deviation(network, proof.get("outputs"))
    print(json.dumps(row), flush=True)
