"""Writes recurrent layers of ONNX with inputs and what ONNX Runtime answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[2] / "frontends"))

from onnx_graphs import constant, network, node, value, weight

WIDTH = 6
GATES, STATES = {"LSTM": 4, "GRU": 3, "RNN": 1}, {"LSTM": 2, "GRU": 1, "RNN": 1}
SHARED = {"LSTM": 520, "GRU": 600, "RNN": 1030}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
OTHERS = [
    *("Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign"),
    "ThresholdedRelu",
]
WITH_BETA, WITHOUT_ALPHA = {"Affine", "HardSigmoid", "ScaledTanh"}, {"Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"}


def layer(
    kind: str,
    direction: str = "forward",
    *,
    hidden: int = 5,
    batch: int = 2,
    steps: int | str = 4,
    bias: bool = True,
    start: bool = False,
    lengths: list[int] | None = None,
    peepholes: bool = False,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a network of one layer with all of its outputs."""
    gates, states, ways = GATES[kind], STATES[kind], 2 if direction == "bidirectional" else 1
    constants = {"w": weight("w", ways, gates * hidden, WIDTH), "r": weight("r", ways, gates * hidden, hidden)}
    constants |= {"b": weight("b", ways, 2 * gates * hidden)} if bias else {}
    constants |= {"l": constant("l", lengths, "int32")} if lengths else {}
    constants |= {name: weight(name, ways, batch, hidden) for name in "hc"[:states]} if start else {}
    constants |= {"p": weight("p", ways, 3 * hidden)} if peepholes else {}
    inputs = ["x", *(name if name in constants else "-" for name in "wrblhcp")]
    outputs = ["y", "last", "memory"][: 1 + states]
    made = node(
        kind, " ".join(inputs[: 8 if kind == "LSTM" else 6]), " ".join(outputs),
        hidden_size=hidden, direction=direction, **attributes,
    )  # fmt: skip
    return network([made], [value("x", [steps, batch, WIDTH])], outputs, list(constants.values()))


def layers() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield the networks by name."""
    forms: list[tuple[str, dict[str, Any]]] = [("LSTM", {}), ("GRU", {}), ("RNN", {})]
    forms.append(("GRU", {"linear_before_reset": 1}))
    sizes = iter([(hidden, batch, steps) for hidden in (5, 16, 35) for batch in (1, 3) for steps in (1, 4)] * 4)
    for kind, form in forms:
        note = f"{kind}{' of PyTorch' if form else ''}"
        for direction in ("forward", "reverse", "bidirectional"):
            for bias, start in ((True, True), (False, False)):
                hidden, batch, steps = next(sizes)
                name = f"{note} {direction} of {hidden}, batch {batch}, {steps} steps, bias {bias}"
                yield (
                    name,
                    layer(kind, direction, hidden=hidden, batch=batch, steps=steps, bias=bias, start=start, **form),
                )
            yield f"{note} {direction} clipped", layer(kind, direction, clip=0.4, **form)
            lengths = [4, 0, 1, 3]
            yield (
                f"{note} {direction} of lengths",
                layer(kind, direction, hidden=17, batch=4, lengths=lengths, start=True, **form),
            )
            yield f"{note} {direction}, open", layer(kind, direction, steps="steps", batch=3, **form)
        yield f"{note} of many units", layer(kind, "bidirectional", hidden=320, batch=1, steps=3, **form)
        # Threads share the units of one sequence from 4 MiB of weights on.
        yield f"{note} shared by threads", layer(kind, hidden=SHARED[kind], batch=1, steps=3, start=True, **form)
    yield from special_layers()


def special_layers() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield layers of LSTM's own options, and of all activations."""
    for direction in ("forward", "bidirectional"):
        yield f"LSTM {direction} with peepholes", layer("LSTM", direction, hidden=19, peepholes=True, start=True)
        yield f"LSTM {direction} with coupled gates", layer("LSTM", direction, peepholes=True, input_forget=1)
    for kind in GATES:
        # As many steps as sequences, so that the shapes of both layouts are the same.
        yield f"{kind}, batch first", layer(kind, "bidirectional", batch=4, layout=1)
    for number, name in enumerate(OTHERS):
        kind = ("RNN", "GRU", "LSTM")[number % 3]
        names = [name, *USUAL[kind][1:]]
        # Values other than the usual ones, in the order of the activations that take any.
        alphas = [] if name in WITHOUT_ALPHA else [0.3]
        betas = [0.6] if name in WITH_BETA else []
        settings = {"activation_alpha": alphas, "activation_beta": betas}
        yield (
            f"{kind} by {name}",
            layer(kind, activations=names, **{key: numbers for key, numbers in settings.items() if numbers}),
        )
    mixed = ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Softsign", "Relu"]
    yield "LSTM of two kinds of activations", layer("LSTM", "bidirectional", activations=mixed)


def write_layers(folder: Path, every: int) -> None:
    """Write every n-th network, its inputs and what it is to answer; ``cases.json`` has their names by number."""
    names = []
    for name, model in islice(layers(), 0, None, every):
        path = folder / f"{len(names)}.onnx"
        onnx.save(model, str(path))
        is_batch_first = bool(_take_layout(model))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
        arrays: dict[str, Any] = {}
        for steps in [shape[0]] if shape[0] else [1, 4, 7]:
            data = np.random.default_rng(steps).normal(size=[steps, *shape[1:]]).astype("float32")
            answers = session.run(None, {"x": data})
            if is_batch_first:
                data, answers = data.swapaxes(0, 1), _with_batch_first(answers)
            arrays |= {f"x {steps}": data, **{f"{place} {steps}": each for place, each in enumerate(answers)}}
        np.savez(path.with_suffix(".npz"), **arrays)
        names.append(name)
    (folder / "cases.json").write_text(json.dumps(names))


def _take_layout(model: onnx.ModelProto) -> int:
    """Remove the layout of a network, which ONNX Runtime knows only one of, and return it."""
    attributes = model.graph.node[0].attribute
    found = next((each for each in attributes if each.name == "layout"), None)
    if found is None:
        return 0
    attributes.remove(found)
    return int(found.i)


def _with_batch_first(answers: list[Any]) -> list[Any]:
    whole, *last = answers
    return [whole.transpose(2, 0, 1, 3), *(each.swapaxes(0, 1) for each in last)]
