"""Times engines side by side: several times new processes of all, which take turns in rounds."""

import logging
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from passsearch.core import TensorType, safe_file_name
from passsearch.dialects.contract import random_inputs
from passsearch.engines.client import EngineFailure, EngineProcess, EngineSpec
from passsearch.engines.contract import Array
from passsearch.measure import CpuTimes
from passsearch.measure.outputs import relative_deviation
from passsearch.measure.rounds import FOREIGN_LIMIT, STEAL_LIMIT

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EnginePlan:
    """Plan of one comparison.

    Attributes:
        threads: Threads of each engine, and cores that its process is pinned to.
        processes: Number of processes of each engine, one after another.
        rounds: Rounds of a process; a round visits every engine once, in random order. A disturbed round is replaced,
            up to twice as many run, and the least disturbed ones count.
        visit_s: Time after which a visit begins no further inference.
        most: Largest number of inferences in a visit.
        pause_s: Pause before each visit, in which idle threads of the engine before stop spinning.
        slow_s: An engine whose first inferences all take longer is slow. It is visited in the first round of a process
            only, for one inference without a run that fills the caches.
        slow_processes: Number of processes of a slow engine.
        limit: Largest deviation of outputs, as a share of the largest expected output.
        seed: Seed of the order.
    """

    threads: int = 2
    processes: int = 6
    rounds: int = 12
    visit_s: float = 0.4
    most: int = 10
    pause_s: float = 0.2
    slow_s: float = 1.0
    slow_processes: int = 3
    limit: float = 1e-4
    seed: int = 0


@dataclass
class EngineRecord:
    """The measurement of one engine so far.

    Attributes:
        spec: The engine.
        opened: Answers to ``open``, by process.
        first_s: Seconds of the first inference, by process.
        memory_bytes: Largest memory that loading and the first inference add, by process.
        deviations: Deviation of the outputs, by process; every process has other inputs.
        visits: Seconds of every inference, by process and round.
        idle_share: Largest share of a core that the process used between its visits; 0 if its threads sleep then.
        failure: Reason why the engine has no result; empty if it has one.
    """

    spec: EngineSpec
    opened: list[dict[str, Any]] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    visits: list[list[list[float]]] = field(default_factory=list)
    idle_share: float = 0.0
    failure: str = ""

    @property
    def samples(self) -> list[list[float]]:
        """Fastest inference of each visit in seconds, by process."""
        return [[min(visit) for visit in visits] for visits in self.visits]


@dataclass(frozen=True)
class Comparison:
    """All engines beside each other.

    Attributes:
        records: The engines, in the order of the call.
        disturbances: Disturbance of every round that counts, by process.
    """

    records: tuple[EngineRecord, ...]
    disturbances: tuple[tuple["Disturbance", ...], ...]


@dataclass(frozen=True)
class Disturbance:
    """Shares of the cores that others took while engines ran.

    Attributes:
        foreign: Share that other processes took.
        steal: Share that the host of a virtual machine took.
    """

    foreign: float
    steal: float

    @classmethod
    def over(cls, visits: "Sequence[Visit]") -> "Disturbance":
        """Return the shares over several visits."""
        total_s = sum(visit.total_s for visit in visits) or 1.0
        foreign_s, stolen_s = sum(visit.foreign_s for visit in visits), sum(visit.stolen_s for visit in visits)
        return cls(round(foreign_s / total_s, 4), round(stolen_s / total_s, 4))

    @property
    def excess(self) -> float:
        """Excess over the limits of passsearch's own measurements; 0 for an undisturbed round."""
        return max(self.foreign / FOREIGN_LIMIT, self.steal / STEAL_LIMIT, 1.0) - 1.0


@dataclass(frozen=True)
class Visit:
    """Times of the cores during one visit.

    Attributes:
        total_s: Time of all its cores.
        foreign_s: Time in which other processes used these cores.
        stolen_s: Time that the host took.
    """

    total_s: float
    foreign_s: float
    stolen_s: float


class Contest:
    """Engines on one network, with everything that their turns measure."""

    def __init__(
        self,
        specs: Sequence[EngineSpec],
        *,
        references: Sequence[EngineSpec],
        types: Mapping[str, TensorType],
        plan: EnginePlan,
        folder: Path,
    ) -> None:
        """Prepare the first turn.

        Args:
            specs: The engines.
            references: Engines whose outputs are right; the first that takes the network is the reference.
            types: The network's inputs.
            plan: The plan.
            folder: Folder for inputs and outputs, which are deleted, and for ``engines.log``, what the engines print.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._references, self._types, self._plan, self._folder = list(references), types, plan, folder
        self._records, self._rng = tuple(map(EngineRecord, specs)), random.Random(plan.seed)  # noqa: S311 -- an order, no secret
        self._disturbances: list[tuple[Disturbance, ...]] = []

    def run_turn(self) -> None:
        """Start one process of every engine, run all rounds and end the processes.

        Raises:
            EngineFailure: The last of the references fails.
        """
        plan, turn = self._plan, len(self._disturbances)
        _log.info("process %d of %d", turn + 1, plan.processes)
        with ExitStack() as stack:
            home = Path(stack.enter_context(TemporaryDirectory(prefix="process-", dir=self._folder)))
            np.savez(home / "inputs.npz", **random_inputs(self._types, seed=turn))  # type: ignore[arg-type]
            expected = self._expected_outputs(home)
            visitors = []
            for record in self._rng.sample(self._records, len(self._records)):
                if not record.failure and not (_is_slow(record, plan) and turn >= plan.slow_processes):
                    visitor = stack.enter_context(Visitor(record, home, plan=plan))
                    visitor.begin(expected)
                    visitors.append(visitor)
            self._disturbances.append(_run_rounds(visitors, plan, rng=self._rng))

    def _expected_outputs(self, home: Path) -> list[Array]:
        try:
            return _reference_outputs(self.reference, home, plan=self._plan)
        except EngineFailure as error:
            if len(self._references) == 1:
                raise
            _log.info("another reference, because of %s", error)
        self._references.pop(0)
        return self._expected_outputs(home)

    @property
    def reference(self) -> EngineSpec:
        """The engine whose outputs are right; it is not timed."""
        return self._references[0]

    @property
    def comparison(self) -> Comparison:
        """The measurements of all turns so far."""
        return Comparison(self._records, tuple(self._disturbances))


def compare(
    specs: Sequence[EngineSpec],
    *,
    reference: EngineSpec,
    types: Mapping[str, TensorType],
    plan: EnginePlan,
    folder: Path,
) -> Comparison:
    """Time engines against each other, with one reference; the arguments are those of ``Contest``.

    Raises:
        EngineFailure: The reference fails.
    """
    contest = Contest(specs, references=[reference], types=types, plan=plan, folder=folder)
    for _ in range(plan.processes):
        contest.run_turn()
    return contest.comparison


def _reference_outputs(reference: EngineSpec, home: Path, *, plan: EnginePlan) -> list[Array]:
    record = EngineRecord(reference)
    with Visitor(record, home, plan=plan) as visitor:
        visitor.begin(None)
    if record.failure:
        raise EngineFailure(f"{reference.name}: {record.failure}")
    return _read_outputs(visitor.outputs)


def _read_outputs(folder: Path) -> list[Array]:
    return [np.load(folder / f"{place}.npy") for place in range(len(list(folder.glob("*.npy"))))]


def _as_precise(output: Array, right: Array) -> Array:
    # A reference in float64 stands for the same network; outputs of another shape or kind are still refused.
    is_rounded = output.dtype == np.float32 and right.dtype == np.float64
    return output.astype(np.float64) if is_rounded else output


def _is_slow(record: EngineRecord, plan: EnginePlan) -> bool:
    # The first inference may do more than the next, and so may another one that others disturb.
    seconds = [*record.first_s, *(value for visits in record.visits for visit in visits for value in visit)]
    return bool(seconds) and min(seconds) > plan.slow_s


def _run_rounds(visitors: "Sequence[Visitor]", plan: EnginePlan, *, rng: random.Random) -> tuple[Disturbance, ...]:
    """Run the rounds of one process, keep those that count, and return their disturbances."""
    found: list[Disturbance] = []
    while sum(each.excess == 0.0 for each in found) < plan.rounds and len(found) < 2 * plan.rounds:
        visits = []
        for visitor in rng.sample(visitors, len(visitors)):
            # A slow engine is visited in the first round only.
            if not visitor.record.failure and not (found and visitor.is_slow):
                visits += visitor.visit(len(found))
        # Only slow engines, or failed ones: later rounds would have no visit, and nothing that disturbs them.
        if found and not visits:
            break
        found.append(Disturbance.over(visits))
    places = sorted(sorted(range(len(found)), key=lambda place: found[place].excess)[: plan.rounds])
    for visitor in visitors:
        visitor.keep(places)
    return tuple(found[place] for place in places)


class Visitor:
    """One process of one engine. A failure goes to the engine's record, and the engine takes no further part."""

    def __init__(self, record: EngineRecord, home: Path, *, plan: EnginePlan) -> None:
        self.record, self._plan, self._home = record, plan, home
        self.outputs = home / safe_file_name(record.spec.name)
        self._process = EngineProcess(record.spec, threads=plan.threads, log=home.with_name("engines.log"))
        self._last: tuple[float, float] | None = None
        self._visits: dict[int, list[float]] = {}

    def __enter__(self) -> "Visitor":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    @property
    def is_slow(self) -> bool:
        """See ``EnginePlan.slow_s``."""
        seconds = (value for visit in self._visits.values() for value in visit)
        return _is_slow(self.record, self._plan) and min(seconds, default=math.inf) > self._plan.slow_s

    def begin(self, expected: Sequence[Array] | None) -> None:
        """Load the network, run it once and compare its outputs with the expected ones, if there are any."""
        record = self.record
        _log.info("loading %s", record.spec.name)
        self.outputs.mkdir(exist_ok=True)
        try:
            record.opened.append(self._process.open(self._home / "inputs.npz"))
            answer = self._process.ask("outputs", folder=str(self.outputs))
        except EngineFailure as error:
            record.failure = str(error)
            return
        record.first_s.append(answer["first_s"])
        record.memory_bytes.append(answer["memory_bytes"])
        if expected is not None:
            self._judge(expected)

    def _judge(self, expected: Sequence[Array]) -> None:
        outputs = _read_outputs(self.outputs)
        if len(outputs) != len(expected):
            self.record.failure = f"{len(outputs)} outputs instead of {len(expected)}"
            return
        pairs = zip(outputs, expected, strict=True)
        deviation = max(relative_deviation(_as_precise(output, right), right) for output, right in pairs)
        self.record.deviations.append(deviation)
        if not deviation <= self._plan.limit:
            self.record.failure = (
                f"outputs deviate by {deviation:.2g} of the largest, {self._plan.limit:.2g} is allowed"
            )

    def visit(self, number: int) -> list[Visit]:
        """Time a few inferences in the round of this number; empty if the engine fails."""
        plan, is_slow = self._plan, self.is_slow
        time.sleep(plan.pause_s)
        cores = sorted(os.sched_getaffinity(0))[: plan.threads]
        before = CpuTimes.read(cores)
        request = {"longest_s": plan.visit_s, "most": 1 if is_slow else plan.most, "warm_up": not is_slow}
        try:
            answer = self._process.ask("visit", **request)
        except EngineFailure as error:
            self.record.failure = str(error)
            return []
        after = CpuTimes.read(cores)
        self._visits[number] = answer["seconds"]
        self._note_idle(answer)
        used_s = answer["cpu_s"][1] - answer["cpu_s"][0]
        foreign_s = max(0.0, after.busy - before.busy - used_s)
        return [Visit(after.total - before.total, foreign_s, after.stolen - before.stolen)]

    def _note_idle(self, answer: Mapping[str, Any]) -> None:
        """Record how much CPU time the process took since its last visit."""
        (begin_s, end_s), (used_s, used_at_end_s) = answer["clock_s"], answer["cpu_s"]
        if self._last is not None:
            share = (used_s - self._last[1]) / (begin_s - self._last[0])
            self.record.idle_share = max(self.record.idle_share, round(share, 3))
        self._last = end_s, used_at_end_s

    def keep(self, rounds: Sequence[int]) -> None:
        """Move the visits of the rounds that count to the record; those of a slow engine all count."""
        kept = [self._visits[number] for number in rounds if number in self._visits]
        self.record.visits.append(list(self._visits.values()) if self.is_slow else kept)
