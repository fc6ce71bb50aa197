"""The function that a call takes, where a network is compiled for several sizes.

A call takes the function of its own size. Where the network is proven to allow it, other sizes are filled with zeros up
to the next larger one, and the outputs are cut; all others take the function of open sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SIZES = "sizes.json"
"""File of a built folder that says how a size is chosen."""

OPEN = "main__open"
"""Name of the function of open sizes."""


class Choice:
    """Chooses a function by the shapes of inputs.

    Attributes:
        record: What the file ``SIZES`` holds.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self._buckets = record["buckets"]

    def signature(self, inputs: dict[str, Any]) -> Any:
        """Return ``[name, dtype, shape]`` of each input; an open size has a name in place of a number.

        Args:
            inputs: The same by entry function.
        """
        return inputs.get(OPEN) or self.record["inputs"]

    def exact(self, arrays: dict[str, Any]) -> Any:
        """Return the bucket of these shapes; ``None`` if there is none."""
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        return next((bucket for bucket in self._buckets if bucket["inputs"] == shapes), None)

    def padded(self, arrays: dict[str, Any]) -> Any:
        """Return the smallest bucket that inputs can be padded to; ``None`` if there is none, or it takes longer."""
        if not self.record["padding"] or not self._has_one_length(arrays) or not self.shows(arrays):
            return None
        bucket = next((bucket for bucket in self._buckets if self._fits(arrays, bucket["inputs"])), None)
        shapes = {name: array.shape for name, array in arrays.items()}
        return bucket if bucket and self.positions(shapes) >= bucket.get("padded_from", 0) else None

    def _has_one_length(self, arrays: dict[str, Any]) -> bool:
        """Return True if one axis of each input grows, and all by the same size: only that is proven."""
        growing = self.record["growing"]
        lengths = {arrays[name].shape[axis] for name, axes in growing.items() for axis in axes}
        return len(lengths) == 1 and all(len(axes) < 2 for axes in growing.values())

    def positions(self, shapes: dict[str, Any]) -> int:
        """Return how many positions inputs of these shapes have: the product of the sizes that grow."""
        name, axes = next((name, axes) for name, axes in self.record["growing"].items() if axes)
        return int(np.prod([shapes[name][axis] for axis in axes]))

    def shows(self, arrays: dict[str, Any]) -> bool:
        """Return True if every mask leaves at least one position of each row."""
        masks = self.record["padding"]["masks"]
        return all(np.any(arrays[name], axis=tuple(self.record["growing"][name])).all() for name in masks)

    def _fits(self, arrays: dict[str, Any], inputs: Any) -> bool:
        return all(len(array.shape) == len(inputs[name]) for name, array in arrays.items()) and all(
            size <= larger if axis in self.record["growing"][name] else size == larger
            for name, array in arrays.items()
            for axis, (size, larger) in enumerate(zip(array.shape, inputs[name]))
        )

    def refusal(self, arrays: dict[str, Any]) -> str:
        """Return in one line why no function takes the inputs."""
        got = ", ".join(f"`{name}` {array.dtype}{list(array.shape)}" for name, array in arrays.items())
        names = ", ".join(bucket["name"] for bucket in self._buckets)
        return f"The network is compiled for the sizes {names}, and not for {got} ({self.record['open_reason']})"


def pad(arrays: dict[str, Any], bucket: Any) -> dict[str, Any]:
    """Return inputs filled with zeros up to the sizes of a bucket."""
    padded = {}
    for name, array in arrays.items():
        padded[name] = np.zeros(bucket["inputs"][name], array.dtype)
        padded[name][tuple(map(slice, array.shape))] = array
    return padded


def cut(outputs: list[Any], arrays: dict[str, Any], cuts: Any) -> list[Any]:
    """Return the part of outputs, arrays or tensors, that belongs to inputs before they were padded."""
    parts = []
    for output, axes in zip(outputs, cuts):
        sizes = list(output.shape)
        for axis, (name, place) in axes.items():
            sizes[int(axis)] = arrays[name].shape[place]
        part = output[tuple(map(slice, sizes))]
        parts.append(part.contiguous() if hasattr(part, "contiguous") else np.ascontiguousarray(part))
    return parts
