"""Choices of rounded weights in one request share what is rounded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import CheckInputs, TensorType
from passsearch.dialects.contract import Array
from passsearch.worker.rounding import compare_rounded


class Sum:
    """A network that adds its two weights to its input, and their rounding to whole numbers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.taken: Mapping[str, Array] = {}

    def rounded(self, layer: tuple[str, int], _: Any) -> tuple[dict[str, Array], dict[str, Array], list[str]]:
        self.asked.append(layer)
        return {f"w{layer[1]}": np.round(np.float32(0.75))}, {}, [f"note {layer[1]}"]

    def take(self, weights: Mapping[str, Array]) -> None:
        self.taken = weights

    def held_inputs(self) -> Mapping[str, Array]:
        return {}

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        return [inputs["x"] * 0 + sum(self.taken.get(name, np.float32(0.75)) for name in ("w0", "w1"))]


def test_each_layer_is_rounded_once_for_all_choices(tmp_path: Path) -> None:
    np.savez(tmp_path / "reference.npz", **{"0_0": np.full((1, 2), 1.5, "float32")})
    layers = [{"kernel": "matmul", "call": call, "arguments": {"storage": "int8"}} for call in (0, 1)]
    inputs = CheckInputs({"x": TensorType((1, 2), "float32")})
    network = Sum()
    request = {
        "inputs": inputs.to_json(),
        "choices": [layers, layers[:1], layers[1:], []],
        "cases": [0],
        "reference": str(tmp_path / "reference.npz"),
    }
    compared = compare_rounded(network, network, request)["compared"]  # type: ignore[arg-type]
    assert network.asked == [("matmul", 0), ("matmul", 1)]
    assert [each["notes"] for each in compared] == [["note 0", "note 1"], ["note 0"], ["note 1"], []]
    assert [round(each["deviation"], 4) for each in compared] == [0.3333, 0.1667, 0.1667, 0.0]
