"""Runs products of narrow weights and of activations in int8, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_int8_activations.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
from narrow_cases import (
    FITTING,
    PROCESSOR,
    RANDOM,
    TARGET,
    bare_product,
    batch_of_products,
    channels_last,
    constant,
    emulated,
    fused,
    narrow,
    notes,
    product,
    report,
    scheduled,
    transposed_product,
    weight,
)
from small_modules import network, run
from tvm import relax, tirx
from tvm.relax import op

from passsearch.dialects.contract import Artifact
from passsearch.dialects.relax.executable import NETWORK
from passsearch.dialects.relax.rounded_network import WeightRounding
from passsearch.standalone.relax.cpu_schedules import NarrowWeights
from passsearch.standalone.relax.deployment.lowering import lower, target_options

CASES = {
    "one row": (bare_product(1, 384, 256), (("int8", 0), ("int8", 64), ("int4", 32), ("int4", 128))),
    "five rows": (bare_product(5, 384, 256), (("int8", 0), ("int4", 32))),
    "columns that no tile divides": (bare_product(5, 256, 203), (("int8", 0), ("int4", 32))),
    "one row of such columns": (bare_product(1, 256, 203), (("int4", 32),)),
    "groups of 24": (bare_product(3, 72, 232), (("int8", 0), ("int4", 32))),
    "groups of 40": (bare_product(3, 40, 416), (("int8", 0), ("int4", 32))),
    "bias": (product(5, 384, 256), (("int4", 32),)),
    "transposed weights": (transposed_product(3, 256, 128), (("int4", 32),)),
    "channels last": (channels_last(7, 128, 64), (("int8", 0), ("int4", 32))),
    "batch of products": (batch_of_products(), (("int8", 0), ("int4", 32))),
}


def rounded_activations(data: Any, group: int) -> Any:
    """Return the numbers that the kernels multiply, in float64."""
    groups = data.reshape(*data.shape[:-1], -1, group)
    largest = np.abs(groups).max(axis=-1, keepdims=True)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 1e-30)
    scale = (largest / np.float32(127)).astype("float64")
    return (np.rint(groups * inverse).astype("float64") * scale).reshape(data.shape)


def integers(cases: Mapping[str, Any]) -> None:
    """Products of integers."""
    for name, ((shape, values, layout), storages) in cases.items():
        body, summed, axis = layout["body"], layout["summed"], layout["axis"]
        data = RANDOM.standard_normal(shape).astype("float32")
        data[..., :64] *= np.float32(100)  # one scale for the whole row would be too coarse
        data[..., 16:40] = 0
        before = fused(network(shape, lambda each, body=body, values=values: body(each, values), "float32"))
        for storage, group in storages:
            after = narrow(before, storage=storage, activations="int8", **({"group": group} if group else {}))
            own = np.ascontiguousarray(values.T) if layout.get("transposed") else values
            size = int(name.removeprefix("groups of ")) if name.startswith("groups of ") else group or 32
            rounded = emulated(own.copy(), storage, group and size, summed=summed, axis=axis)
            factor = rounded_activations(data, size)
            if axis == 0 and name != "bias":
                expected = factor @ rounded.astype("float64")
            else:
                used = fused(network(shape, lambda each, body=body, own=rounded: body(each, own), "float32"))
                expected = run(scheduled(used), factor.astype("float32"), TARGET)
            modules = [scheduled(after), *([after] if name == "one row" else [])]
            deviations = [np.abs(run(each, data, TARGET) - expected).max() / np.abs(expected).max() for each in modules]
            case = {"case": name, "kind": "integers", "storage": storage, "notes": notes(after)}
            print(json.dumps({**case, "deviation": float(max(deviations))}))


def arguments(cases: Mapping[str, Any]) -> None:
    """The same products, with weights and the sizes of groups as arguments of float32 kernels."""
    for name, ((shape, values, layout), storages) in cases.items():
        data = RANDOM.standard_normal(shape).astype("float32")
        data[..., :64] *= np.float32(100)
        module = fused(
            network(shape, lambda each, layout=layout, values=values: layout["body"](each, values), "float32")
        )
        rounding = WeightRounding(module, PROCESSOR, has_activations=True)
        (layer,) = rounding.layers
        for storage, group in storages:
            chosen = {"storage": storage, "activations": "int8", **({"group": group} if group else {})}
            weights, sizes, _ = rounding.rounded((layer.kernel, layer.call), chosen)
            with TemporaryDirectory() as folder:
                library = Path(folder, NETWORK)
                with TARGET:
                    built = relax.build(
                        lower(scheduled(rounding.module), level=0, target=TARGET), TARGET, relax_pipeline=None
                    )
                built.export_library(str(library))
                machine = rounding.open(Artifact(Path(folder), 0, None), "cpu")
                (plain,) = machine.run({"x": data})
                machine.take(weights | sizes)
                (found,) = machine.run({"x": data})
            own = {kind: {**chosen, "activations": kind} for kind in ("float32", "int8")}
            expected = {kind: run(scheduled(narrow(module, **each)), data, TARGET) for kind, each in own.items()}
            pairs = {
                "plain": (plain, run(scheduled(module), data, TARGET)),
                "rounded": (found, expected["int8"]),
                "activations": (found, expected["float32"]),
            }
            deviations = {key: float(np.abs(a - b).max() / np.abs(b).max()) for key, (a, b) in pairs.items()}
            print(json.dumps({"case": name, "kind": "arguments", "storage": storage, **deviations}))


def floats() -> None:
    """Weights that are narrow while their activations stay float32."""
    values, rows = weight(128, 256), tirx.Var("rows", "int64")

    def of(data: Any, shape: Sequence[Any] = (2, 128)) -> Any:
        return fused(network(shape, lambda each: op.matmul(each, constant(data)), "float32"))

    report("open rows", of(values, (rows, 128)), storage="int4", activations="int8")
    report("odd sum in columns", of(weight(127, 256), (2, 127)), storage="int8", activations="int8")
    (shape, weights, layout) = FITTING["convolution"]
    images = fused(network(shape, lambda each: layout["body"](each, weights), "float32"))
    report("images", images, storage="int8", activations="int8")
    own = {"matmul": {"storage": "int8", "activations": "int8"}}
    report("integers in one kernel", of(values), storage="int4", kernels=own)
    try:
        narrow(of(values), storage="float16", activations="int8")
    except ValueError as error:
        print(json.dumps({"case": "float16", "kind": "error", "text": str(error)}))
    with tvm.target.Target(target_options("llvm -mcpu=x86-64")):
        after = NarrowWeights(storage="int4", activations="int8")(of(values))
    print(json.dumps({"case": "old processor", "kind": "notes", "notes": notes(after), "types": [], "same": False}))


if __name__ == "__main__":
    cases = dict(list(CASES.items())[:: int(sys.argv[1])])
    integers(cases)
    arguments(cases)
    floats()
