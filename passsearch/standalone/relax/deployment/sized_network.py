"""A network of several sizes, and the check of it once it is built."""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import loader_command
import machine_pool
import numpy as np
import size_choice

TIMED_S, MOST_CALLS = 0.4, 50
"""Seconds and calls that a size is timed for at most."""


class SizedNetwork:
    """A network of several sizes. Call it like ``machine_pool.Network``, which it is for every size.

    Attributes:
        machines: The largest number of calls that run at once.
    """

    def __init__(
        self, make: Any, inputs: dict[str, Any], choice: size_choice.Choice, machines: int | None = None
    ) -> None:
        """Make the first machine.

        Args:
            make: Function that returns another machine: a function of the name of an entry function and of arrays.
            inputs: By entry function, ``[name, dtype, shape]`` of each input in order.
            choice: Chooses the function.
            machines: The largest number of calls that run at once; by default one for each processor.
        """
        self.choice, self._pool = choice, machine_pool.MachinePool(make, machines)
        self.machines = self._pool.machines
        self._signature = machine_pool.Signature(choice.signature(inputs))

    @property
    def inputs(self) -> Any:
        """``[name, dtype, shape]`` of each input in order; an open size has a name in place of a number."""
        return self._signature.inputs

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Run the network once; raise ``InputError`` for inputs that it does not take."""
        own = self._signature.check(self._signature.by_name(arrays, named))
        bucket = self.choice.exact(own)
        if bucket is not None:
            return self.run(bucket["function"], own)
        bucket = self.choice.padded(own)
        if bucket is not None:
            return self.run_padded(bucket, own)
        if not self.choice.record["open"]:
            raise machine_pool.InputError(self.choice.refusal(own))
        return self.run(size_choice.OPEN, own)

    def run(self, function: str, arrays: dict[str, Any]) -> list[Any]:
        """Run one function."""
        return self._pool.run(function, arrays)  # type: ignore[no-any-return]

    def run_padded(self, bucket: Any, arrays: dict[str, Any]) -> list[Any]:
        """Run the function of a bucket on smaller inputs."""
        outputs = self.run(bucket["function"], size_choice.pad(arrays, bucket))
        return size_choice.cut(outputs, arrays, self.choice.record["padding"]["outputs"])  # type: ignore[no-any-return]


def write_sizes(record: Any, runs: Any, open_sized: Any, folder: Path, deviation_of: Any) -> str:
    """Compare padded calls, time all sizes, and write what chooses a size into a built folder.

    Args:
        record: The content of the pipeline file.
        runs: Name, inputs and outputs of every entry function, at every size it was checked at.
        open_sized: Makes a ``SizedNetwork`` of a choice.
        folder: The built folder.
        deviation_of: Returns by how much an output deviates from one that the pipeline file has.

    Returns:
        What the sizes between take, in words.
    """
    sizes = {**record["sizes"]}
    source = iter(sizes.pop("expected"))
    network = open_sized(size_choice.Choice(sizes))
    between = []
    for entry, inputs, outputs in runs:
        if entry == size_choice.OPEN:
            own = [next(source) for _ in outputs] if record["sizes"]["expected"] else []
            between.append(_compared(network, inputs, outputs, lambda padded, own=own: map(deviation_of, padded, own)))
    sizes["between"] = between
    worst = float(np.max([row["deviation"] for row in between if "deviation" in row] or [np.inf]))
    # A deviation that is NaN compares as false, and must fail.
    if sizes["padding"] and not worst <= record["tolerance"]:
        reason = f"padded calls deviate by {worst:.2g} of the largest value, {record['tolerance']:.2g} is allowed"
        sizes.update(padding=None, padding_reason=reason)
    examples = {entry: inputs for entry, inputs, _ in runs if entry != size_choice.OPEN}
    for bucket in sizes["buckets"]:
        function = bucket["function"]
        bucket["seconds"] = _times({"": lambda f=function: network.run(f, examples[f])})["_s"]
    if sizes["padding"]:
        below = None
        for bucket in sizes["buckets"]:
            bucket["padded_from"] = _padded_from(network, below, bucket, examples[bucket["function"]])
            below = bucket
    (folder / size_choice.SIZES).write_text(json.dumps(sizes, indent=1))
    return _fate(sizes)


def _compared(network: Any, inputs: dict[str, Any], outputs: list[Any], deviations_of: Any) -> dict[str, Any]:
    """Return what a call of a size between takes, its times, and the largest deviation of a padded call.

    Args:
        network: The network.
        inputs: The inputs.
        outputs: Outputs of the function of open sizes, which have been compared with the source's.
        deviations_of: Returns the deviations of outputs from the source's.
    """
    row: dict[str, Any] = {"inputs": {name: list(array.shape) for name, array in inputs.items()}}
    shown = _shown(network.choice.record, inputs)
    if shown is not inputs:
        outputs = network.run(size_choice.OPEN, shown)
    calls = {"open": lambda: network.run(size_choice.OPEN, shown)}
    bucket = network.choice.padded(shown)
    if bucket is not None:
        calls["padded"] = lambda: network.run_padded(bucket, shown)
        padded = calls["padded"]()
        deviations = [loader_command.deviation(*pair) for pair in zip(padded, outputs)]
        deviations += deviations_of(padded) if shown is inputs else []
        row.update(bucket=bucket["name"], deviation=float(np.max(deviations)))
    return {**row, **_times(calls)}


def _padded_from(network: Any, below: Any, bucket: Any, inputs: dict[str, Any]) -> int:
    """Return from how many positions on a padded call takes no longer than the function of open sizes.

    The time of that function is taken at the smallest size and at a middle one, and is taken for linear.

    Args:
        network: The network.
        below: The bucket of the next smaller size; ``None`` for the first.
        bucket: The bucket.
        inputs: Inputs of its size.
    """
    growing, positions = network.choice.record["growing"], network.choice.positions
    first, middle = (_cut_between(below, bucket, inputs, growing, share) for share in (0.0, 0.5))
    first_n, middle_n = (positions({name: array.shape for name, array in each.items()}) for each in (first, middle))
    times = _times(
        {
            "first": lambda: network.run(size_choice.OPEN, first),
            "middle": lambda: network.run(size_choice.OPEN, middle),
            "padded": lambda: network.run_padded(bucket, middle),
        }
    )
    left_s, grows_s = times["padded_s"] - times["first_s"], times["middle_s"] - times["first_s"]
    if left_s <= 0 or middle_n == first_n:
        return int(first_n)
    most: int = positions(bucket["inputs"])
    return min(most, first_n + math.ceil(left_s / grows_s * (middle_n - first_n))) if grows_s > 0 else most


def _cut_between(below: Any, bucket: Any, inputs: dict[str, Any], growing: Any, share: float) -> dict[str, Any]:
    """Return inputs of a size between two: the share of the way from the smallest to the bucket's."""
    parts = {}
    for name, array in inputs.items():
        sizes = list(array.shape)
        for axis in growing[name]:
            low = (below["inputs"][name][axis] if below else 0) + 1
            sizes[axis] = low + int(share * (sizes[axis] - low))
        parts[name] = np.ascontiguousarray(array[tuple(map(slice, sizes))])
    return parts


def _fate(sizes: Any) -> str:
    if sizes["padding"]:
        return "padded to the next larger one, where that is faster than the function of open sizes"
    fallback = "the function of open sizes" if sizes["open"] else "refused"
    return f"{fallback}; not padded, because {sizes['padding_reason']}"


def _shown(sizes: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with masks that leave at least the first position of each row."""
    if not sizes["padding"] or size_choice.Choice(sizes).shows(inputs):
        return inputs
    shown = dict(inputs)
    for name in sizes["padding"]["masks"]:
        shown[name] = inputs[name].copy()
        shown[name][tuple(0 if axis in sizes["growing"][name] else slice(None) for axis in range(shown[name].ndim))] = 1
    return shown


def _times(calls: dict[str, Any]) -> dict[str, float]:
    """Return the median seconds of some calls, which take turns, by name with the suffix ``_s``."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + TIMED_S * len(calls)
    for _ in range(MOST_CALLS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return {f"{name}_s": statistics.median(each) for name, each in seconds.items()}
