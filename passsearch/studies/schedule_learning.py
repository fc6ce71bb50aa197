"""What searches of several networks found out about the schedules of kernels, as a proposal for the catalog."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from passsearch.core import UNKNOWN_CLASS, PassSpec, Pipeline
from passsearch.errors import UserError
from passsearch.measure import LEVEL, mean_ratio
from passsearch.store import Fact, Log, read_result

FEW_OPERATIONS = 2.5
"""Operations on each byte up to which a kernel has few, as a depthwise convolution."""

LEAST_KERNELS = 3
"""Number of kernels of a kind from which on something is said about them."""

MOST_SETTINGS = 3
"""Number of settings that are listed of each kind, the fastest first."""

NOISE = 0.02
"""Share of a kernel's time from which on it counts as faster or slower."""


@dataclass(frozen=True)
class _Kernel:
    """A kernel that was timed under several settings of a pass.

    Attributes:
        networks: Networks that have it.
        own: The pass as the pipeline had it.
        has_few_operations: True for few operations on each byte.
        times: Time under each setting as a multiple of that under ``own``, measured in the same process.
    """

    networks: frozenset[str]
    own: PassSpec
    has_few_operations: bool
    times: Mapping[PassSpec, float]


def learn_schedules(runs: Sequence[Path]) -> dict[str, Any]:
    """Return, by architecture class and pass, the settings that are faster than the pass's own on kernels of a kind.

    A setting is listed if its mean over kernels is certainly below 1; the level allows for the number of settings, not
    for that of classes and kinds. The times are those of kernels alone.

    Args:
        runs: Run folders with a result.

    Raises:
        UserError: A folder holds no result, or the runs are for several targets.
    """
    documents = {run: read_result(run) for run in runs}
    targets = sorted({document["target"] for document in documents.values()})
    if len(targets) > 1:
        raise UserError(
            f"Times of kernels hold for one target; these runs have {', '.join(targets)}. Give those of one."
        )
    by_class: defaultdict[str, dict[str, _Kernel]] = defaultdict(dict)
    for run, document in documents.items():
        kernels = dict(_kernels(run, network=document["model"]["name"]))
        for name in [row["name"] for row in document["classes"]] or [UNKNOWN_CLASS]:
            # Networks of a class share kernels, which count once.
            for key, kernel in kernels.items():
                known = by_class[name].get(key, kernel)
                by_class[name][key] = replace(known, networks=known.networks | kernel.networks)
    found = {name: _by_pass(list(kernels.values())) for name, kernels in sorted(by_class.items())}
    return {name: rows for name, rows in found.items() if rows}


def schedule_facts(run: Path) -> tuple[dict[str, Fact], dict[tuple[str, str, str], Fact]]:
    """Return what a run recorded about kernels, by digest, and about their schedules that ran.

    The keys of the schedules are the digest of the kernel, the conditions of the measurement, and the pass as text.
    """
    kernels: dict[str, Fact] = {}
    schedules: dict[tuple[str, str, str], Fact] = {}
    with Log(run / "log.jsonl", writable=False) as log:
        for kind, key in log.times:
            fact = log.recall(kind, key) if kind in ("kernels", "variant") else None
            if fact and kind == "kernels":
                kernels |= {row["digest"]: row for row in fact.get("kernels", ())}
            elif fact and "seconds" in fact:
                digest, conditions, step = key.split("|", 2)
                schedules[digest, conditions, step] = fact
    return kernels, schedules


def _kernels(run: Path, *, network: str) -> Iterator[tuple[str, _Kernel]]:
    """Yield the kernels of a run that were timed under several settings, with what tells them apart."""
    described, schedules = schedule_facts(run)
    timed: defaultdict[tuple[str, str, str], dict[PassSpec, Fact]] = defaultdict(dict)
    for (digest, conditions, step), fact in schedules.items():
        if fact.get("reference_s"):
            timed[digest, conditions, fact["reference"]][Pipeline.parse(step).passes[0]] = fact
    for (digest, conditions, reference), facts in timed.items():
        if row := described.get(digest):
            own = Pipeline.parse(reference).passes[0]
            times = {step: fact["seconds"] / fact["reference_s"] for step, fact in facts.items()}
            has_few = row["operations"] < FEW_OPERATIONS * row["bytes"]
            yield f"{digest}|{conditions}|{reference}", _Kernel(frozenset([network]), own, has_few, times)


def _by_pass(kernels: Sequence[_Kernel]) -> dict[str, list[dict[str, Any]]]:
    groups: defaultdict[tuple[PassSpec, bool], list[_Kernel]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.own, kernel.has_few_operations].append(kernel)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for (own, has_few), group in sorted(groups.items(), key=lambda item: (str(item[0][0]), item[0][1])):
        if faster := _faster(group):
            kind = "few operations on each byte" if has_few else "many operations on each byte"
            networks = sorted(frozenset.union(*(kernel.networks for kernel in group)))
            row = {"own": dict(own.argument_values), "kernels": kind, "networks": networks}
            found[own.name].append({**row, "faster": faster[:MOST_SETTINGS]})
    return dict(found)


def _faster(kernels: Sequence[_Kernel]) -> list[dict[str, Any]]:
    """Return the settings that are certainly faster on average, the fastest first."""
    settings = {step for kernel in kernels for step in kernel.times}
    # Many settings lead to one schedule of each kernel; the one with the fewest arguments stands for them.
    distinct = {
        tuple((place, kernel.times[step]) for place, kernel in enumerate(kernels) if step in kernel.times): step
        for step in sorted(settings, key=lambda step: (-len(step.arguments), str(step)))
    }
    level = 1 - (1 - LEVEL) / max(len(distinct), 1)
    rows = []
    for timed, step in distinct.items():
        logs = [math.log(time) for _, time in timed]
        ratio = mean_ratio(logs, level=level)
        if len(logs) >= LEAST_KERNELS and ratio.interval.high < 1:
            counts = {
                "number": len(logs),
                "faster": sum(value < math.log(1 - NOISE) for value in logs),
                "slower": sum(value > math.log(1 + NOISE) for value in logs),
            }
            interval = [round(ratio.interval.low, 3), round(ratio.interval.high, 3)]
            rows.append(
                {"arguments": dict(step.argument_values), "time": round(ratio.value, 3), "interval": interval, **counts}
            )
    return sorted(rows, key=lambda row: row["time"])
