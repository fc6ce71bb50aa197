"""Typed records of what timing processes answer, each read from its fact in one place."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from passsearch.core import Json
from passsearch.dialects.contract import KernelCalls, KernelCost
from passsearch.evaluate.records import Built
from passsearch.measure import Cf22Plan, Consumption, RoundPlan
from passsearch.store import Fact

Conditions: TypeAlias = Mapping[str, Json]
"""Conditions of a measurement as the timing process reports them: threads, clocks, steal, load and others."""

DISTURBANCES = ("steal_percent", "foreign_percent", "rounds_dropped")
"""Conditions that differ from one process to the next."""

Samples: TypeAlias = tuple[float, ...]
"""Seconds per inference, one value a round."""


def summarize_conditions(processes: Sequence[Conditions]) -> Conditions:
    """Return the conditions of several processes in one: those of the first, with the means of disturbances."""
    if not processes:
        return {}
    # The first process alone would hide a disturbance of a later one.
    rows: Any = processes
    names = [name for name in DISTURBANCES if all(row.get(name) is not None for row in rows)]
    return {**rows[0], **{name: round(fmean(row[name] for row in rows), 2) for name in names}}


@dataclass(frozen=True)
class CandidateSamples:
    """Samples of a candidate and of a reference from one process of a search; both empty where nothing runs.

    Attributes:
        reference: Samples of the reference.
        candidate: Samples of the candidate.
        conditions: Conditions of the process.
    """

    reference: Samples
    candidate: Samples
    conditions: Conditions

    @classmethod
    def from_fact(cls, fact: Fact) -> "CandidateSamples":
        """Read a fact of kind ``samples``."""
        reference, candidate = fact["samples"]
        return cls(tuple(reference), tuple(candidate), fact["conditions"])


@dataclass(frozen=True)
class TimedArtifacts:
    """Artifacts that one process times against each other.

    Attributes:
        baseline: Folder of the baseline; ``None`` where other processes time it.
        twin: Folder of another build of the baseline, or of the first candidate where the baseline is slow. The
            ratio of the two builds is the noise of the measurement.
        candidates: Folders of the candidates.
    """

    baseline: Path | None
    candidates: tuple[Path, ...]
    twin: Path | None = None

    @property
    def folders(self) -> list[str]:
        """All folders in the order of the request: baseline, twin, candidates."""
        return [str(folder) for folder in (self.baseline, self.twin, *self.candidates) if folder is not None]

    def split(self, samples: Sequence[Sequence[float]], conditions: Conditions) -> "ProcessSamples":
        """Return one process's samples, which come in the order of ``folders``, by role."""
        rows = [tuple(row) for row in samples]
        baseline = rows.pop(0) if self.baseline is not None else ()
        twin = rows.pop(0) if self.twin is not None else ()
        return ProcessSamples(baseline, twin, tuple(rows), conditions)


@dataclass(frozen=True)
class TimingRequest:
    """A request to time artifacts against each other in new processes.

    Attributes:
        key: Names the samples in the log.
        artifacts: Artifacts to time.
        plan: Plan of each process.
        processes: Number of processes; ``None`` for as many as fit into ``least_s`` or
            ``MeasurementPlans.least_timing_s``, within the bounds of the plans.
        most: Largest number of processes; that of the plans by default.
        least_s: Time that timing may take, if it is longer than ``MeasurementPlans.least_timing_s``.
        left_s: Time that is left for it.
        turn: Number of the first process; it decides the order in which artifacts are loaded.
        restored: Artifacts whose files are made again, if they are gone, before they are timed.
    """

    key: str
    artifacts: TimedArtifacts
    plan: RoundPlan | Cf22Plan
    processes: int | None = None
    most: int | None = None
    least_s: float = 0.0
    left_s: float = math.inf
    turn: int = 0
    restored: tuple[Built, ...] = ()


@dataclass(frozen=True)
class ProcessSamples:
    """Samples of one timing process; empty for a role that it did not time.

    Attributes:
        baseline: Samples of the baseline.
        twin: Samples of another build of the baseline, or of the first candidate.
        candidates: Samples of each candidate.
        conditions: Conditions of the process.
        cases: For a network with several cases, the samples of each case, with the weighted ones left out.
    """

    baseline: Samples
    twin: Samples
    candidates: tuple[Samples, ...]
    conditions: Conditions
    cases: tuple["ProcessSamples", ...] = ()


@dataclass(frozen=True)
class TimedSamples:
    """Samples of several new processes; none where nothing runs.

    Attributes:
        processes: The processes, in the order they ran.
        wall_s: Wall time of all of them, starts included.
    """

    processes: tuple[ProcessSamples, ...]
    wall_s: float

    @classmethod
    def from_fact(cls, fact: Fact, artifacts: TimedArtifacts) -> "TimedSamples":
        """Read a fact of kind ``timed``."""
        parts = fact.get("parts") or [[] for _ in fact["processes"]]
        rows = zip(fact["processes"], fact["conditions"], parts, strict=True)
        return cls(tuple(_with_cases(artifacts, *row) for row in rows), fact["wall_s"])


def _with_cases(
    artifacts: TimedArtifacts, samples: Sequence[Samples], conditions: Conditions, parts: Sequence[Sequence[Samples]]
) -> ProcessSamples:
    """Return one process's samples, and those of each case; ``parts`` are seconds by artifact, sample and case."""
    by_case = zip(*(zip(*row, strict=True) for row in parts), strict=True)
    cases = tuple(artifacts.split(rows, conditions) for rows in by_case)
    return replace(artifacts.split(samples, conditions), cases=cases)


@dataclass(frozen=True)
class Consumed:
    """Consumption of several artifacts that ran in turns.

    Attributes:
        artifacts: The consumption of each artifact, in the order of the request.
        wall_s: Wall time of the process.
    """

    artifacts: tuple[Consumption, ...]
    wall_s: float

    @classmethod
    def from_fact(cls, fact: Fact) -> "Consumed":
        """Read a fact of kind ``consumed``."""
        return cls(tuple(map(Consumption.from_json, fact["consumed"])), fact["wall_s"])


@dataclass(frozen=True)
class PlaceTimes:
    """The times of an artifact's kernels in their places.

    Attributes:
        kernels: Seconds by name of the kernel: the sum over its calls in one inference.
        whole_s: Seconds of one inference that nobody observed, by process: the fastest in each.
    """

    kernels: Mapping[str, float]
    whole_s: tuple[float, ...]

    @classmethod
    def from_fact(cls, fact: Fact) -> "tuple[PlaceTimes, ...]":
        """Read a fact of kind ``places``; empty if the runtime does not tell kernels apart."""
        if None in fact["kernels"]:
            return ()
        # Facts of earlier versions have no times of whole inferences.
        wholes = fact.get("whole_s") or [()] * len(fact["kernels"])
        return tuple(cls(kernels, tuple(whole_s)) for kernels, whole_s in zip(fact["kernels"], wholes, strict=True))


@dataclass(frozen=True)
class NetworkProfile:
    """The times of an artifact's calls.

    Attributes:
        built: The artifact.
        calls: Name and seconds of every call of one inference in order, those of the runtime among them: of the
            fastest observed inference in the process whose inferences are the fastest.
        whole_s: Seconds of one inference that nobody observed, by process: the fastest in each.
        costs: Operations and bytes of one call, by kernel; without those that are unknown.
        weights: Weight of every call; the times of several cases are weighed.
        energy_j: Energy of all calls of a kernel in an inference, by kernel; without those that are unknown.
        is_alone: True if every kernel was timed alone, all its calls one after the other on the same data.
    """

    built: Built
    calls: KernelCalls
    whole_s: tuple[float, ...]
    costs: Mapping[str, KernelCost]
    weights: tuple[float, ...]
    energy_j: Mapping[str, float] = field(default_factory=dict)
    is_alone: bool = False

    @classmethod
    def from_answers(
        cls, built: Built, answers: Sequence[Fact], costs: Mapping[str, KernelCost], alone: Mapping[str, Fact]
    ) -> "NetworkProfile":
        """Read the answers of all processes about one artifact, and of one about its kernels alone."""
        # One process for both: in another one the network lies at other addresses, and takes another time.
        fastest = min(answers, key=lambda answer: float(answer["whole_s"]))
        is_alone = any(answer["calls"] is None for answer in answers)
        calls = [] if is_alone else [(name, seconds) for name, seconds in fastest["calls"]]
        for name, row in alone.items() if is_alone else ():
            calls += [(name, row["seconds"] / row["calls"])] * row["calls"]
        weights = tuple(fastest.get("weights") or ()) if not is_alone else ()
        energy_j = {name: row["energy_j"] for name, row in alone.items() if row["energy_j"] is not None}
        whole_s = tuple(answer["whole_s"] for answer in answers)
        return cls(built, calls, whole_s, costs, weights or (1.0,) * len(calls), energy_j, is_alone)
