"""What happens inside the timing process: the output gate, then interleaved rounds. numpy only."""

import hashlib
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, Executable, random_inputs

DIGEST_VALUES = 64


@dataclass(frozen=True)
class RoundPlan:
    """How the artifacts of one timing process are sampled.

    Attributes:
        rounds: Rounds kept; in each, every artifact is visited once, in an order drawn anew.
        warmup_rounds: Rounds before them, thrown away.
        sample_s: Least duration of one visit in seconds; sets the number of inferences a visit averages over.
        seed: Seed of the visiting order.
        give_up_ratio: A candidate this many times slower than the baseline is dropped after ``give_up_rounds``.
        give_up_rounds: See ``give_up_ratio``.
        give_up: Whether to drop at all; off when a winner is confirmed.
    """

    rounds: int
    warmup_rounds: int
    sample_s: float
    seed: int
    give_up_ratio: float = 1.5
    give_up_rounds: int = 4
    give_up: bool = True


def verify(
    executable: Executable,
    *,
    types: Mapping[str, TensorType],
    seeds: Sequence[int],
    outputs: Path,
    reference: Path | None,
) -> dict[str, Any]:
    """Run on the inputs of every seed; keep the outputs, and compare them with the reference's if there is one.

    Outputs are kept as ``<seed>_<index>`` arrays of one ``.npz``.
    """
    produced = {
        f"{seed}_{index}": array
        for seed in seeds
        for index, array in enumerate(executable.run(random_inputs(types, seed=seed)))
    }
    if reference is None:
        unfinished = outputs.with_name("partial-" + outputs.name)
        np.savez(unfinished, **produced)  # type: ignore[arg-type]
        unfinished.replace(outputs)
        return {"deviation": 0.0}
    with np.load(reference) as expected:
        if set(expected.files) != set(produced):
            return {"deviation": float("inf"), "mismatch": "the number of outputs differs"}
        mismatches = [_mismatch(produced[key], expected[key]) for key in produced]
        deviations = [difference(produced[key], expected[key]) for key in produced]
    return {"deviation": max(deviations), "mismatch": next(filter(None, mismatches), "")}


def _mismatch(actual: Array, expected: Array) -> str:
    if (actual.shape, actual.dtype) == (expected.shape, expected.dtype):
        return ""
    return f"an output is {actual.dtype}{list(actual.shape)}, the reference's is {expected.dtype}{list(expected.shape)}"


def difference(actual: Array, expected: Array) -> float:
    """Largest deviation as a share of the largest expected magnitude; infinite where shapes or finiteness differ.

    Integers and booleans must be equal: any deviation is infinite.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(expected[finite]).max()), 1e-30)
    return float(np.abs(actual[finite].astype("float64") - expected[finite]).max()) / scale


def digest(outputs: Sequence[Array]) -> list[dict[str, Any]]:
    """Each output in a few numbers: shape, dtype, largest finite magnitude, SHA-256 and evenly spaced values."""
    return [
        {
            "shape": list(output.shape),
            "dtype": str(output.dtype),
            "max_abs": float(np.abs(output[np.isfinite(output)].astype("float64")).max(initial=0.0)),
            "sha256": hashlib.sha256(output.tobytes()).hexdigest(),
            "values": _spaced(output),
        }
        for output in outputs
    ]


def _spaced(output: Array) -> list[float | int | str]:
    """Values of an array, flattened, from its first to its last; what JSON has no number for is text (``nan``)."""
    last, count = output.size - 1, min(output.size, DIGEST_VALUES)
    values = [output.flat[index * last // max(count - 1, 1)].item() for index in range(count)]
    return [value if math.isfinite(value) else str(value) for value in values]


def measure(executables: Sequence[Executable], *, types: Mapping[str, TensorType], plan: RoundPlan) -> dict[str, Any]:
    """Sample artifacts interleaved in rounds; the first is the baseline.

    Answers seconds per inference, one list per artifact, and the conditions they were sampled under.
    """
    for executable in executables:
        executable.run(random_inputs(types, seed=0))
    before, start = _steal_ticks(), time.perf_counter()
    samples = _rounds(executables, plan)
    return {
        "samples": samples,
        "conditions": {
            "threads": int(os.environ.get("TVM_NUM_THREADS", "0")) or None,
            "affinity": sorted(os.sched_getaffinity(0)),
            "steal_percent": _steal_percent(before, time.perf_counter() - start),
            "load": round(os.getloadavg()[0], 2),
            "clocks": None,
            "throttled": None,
        },
    }


def _rounds(executables: Sequence[Executable], plan: RoundPlan) -> list[list[float]]:
    counts = [_inner_count(executable, plan.sample_s) for executable in executables]
    samples: list[list[float]] = [[] for _ in executables]
    order, rng = list(range(len(executables))), random.Random(plan.seed)  # noqa: S311
    for number in range(plan.warmup_rounds + plan.rounds):
        rng.shuffle(order)
        for index in order:
            seconds = executables[index].sample(counts[index])
            if number >= plan.warmup_rounds:
                samples[index].append(seconds)
        if plan.give_up and len(samples[0]) == plan.give_up_rounds:
            order = [index for index in order if index == 0 or not _hopeless(samples, index, plan)]
    return samples


def _hopeless(samples: Sequence[Sequence[float]], index: int, plan: RoundPlan) -> bool:
    return min(samples[index]) > plan.give_up_ratio * float(np.median(samples[0]))


def _inner_count(executable: Executable, sample_s: float) -> int:
    executable.sample(1)
    return max(1, round(sample_s / max(executable.sample(1), 1e-7)))


def _steal_ticks() -> int:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) if len(fields) > 8 else 0


def _steal_percent(before: int, seconds: float) -> float:
    stolen_s = (_steal_ticks() - before) / os.sysconf("SC_CLK_TCK")
    return round(100 * stolen_s / max(seconds * (os.cpu_count() or 1), 1e-9), 2)
