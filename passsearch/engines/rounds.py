"""Times engines side by side: several times new processes of all, which take turns in rounds."""

import logging
import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from passsearch.core import TensorType, safe_file_name, usable_processors
from passsearch.dialects.contract import random_inputs
from passsearch.engines.client import OPEN_DEADLINE_S, EngineFailure, EngineProcess, EngineSpec
from passsearch.engines.contract import Array
from passsearch.engines.disturbance import Disturbance, Visit
from passsearch.measure import CpuTimes, Meter
from passsearch.measure.outputs import relative_deviation

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
        requests: Numbers of inferences that run at the same time, each timed after the single ones of a visit.
        kernel_runs: Number of inferences for which the profiler of each engine runs, after the rounds of the first
            process; 0 for none.
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
    requests: tuple[int, ...] = ()
    kernel_runs: int = 0


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
        rates: Inferences per second by the number that run at the same time, by process and round.
        no_rates: Reason why the engine cannot run that number of inferences, by the number.
        energy_j: Joules of one inference, by process and round; empty where there is no meter.
        power_w: Mean power of a visit in watts, by process and round.
        artifact_bytes: Size of the files that the engine loads.
        accuracy: Share of labelled samples that it classifies right, with their numbers, or the reason why it is not
            known; ``None`` without labels.
        kernels: Name and seconds of each kernel of one inference, by the engine's own profiler.
        no_kernels: Reason why there are none; empty if none were asked for.
        idle_share: Largest share of a core that the process used between its visits; 0 if its threads sleep then.
        failure: Reason why the engine has no result; empty if it has one.
    """

    spec: EngineSpec
    opened: list[dict[str, Any]] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    memory_bytes: list[int] = field(default_factory=list)
    deviations: list[float] = field(default_factory=list)
    visits: list[list[list[float]]] = field(default_factory=list)
    rates: dict[int, list[list[float]]] = field(default_factory=dict)
    no_rates: dict[int, str] = field(default_factory=dict)
    energy_j: list[list[float]] = field(default_factory=list)
    power_w: list[list[float]] = field(default_factory=list)
    artifact_bytes: int | None = None
    accuracy: dict[str, Any] | None = None
    kernels: list[tuple[str, float]] = field(default_factory=list)
    no_kernels: str = ""
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
    disturbances: tuple[tuple[Disturbance, ...], ...]


class EngineTiming:
    """Engines on one network, with everything that their turns measure."""

    def __init__(
        self,
        specs: Sequence[EngineSpec],
        *,
        references: Sequence[EngineSpec],
        types: Mapping[str, TensorType],
        plan: EnginePlan,
        folder: Path,
        meter: Meter | None = None,
        samples: Path | None = None,
    ) -> None:
        """Prepare the first turn.

        Args:
            specs: The engines.
            references: Engines whose outputs are right; the first that takes the network is the reference.
            types: The network's inputs.
            plan: The plan.
            folder: Folder for inputs and outputs, which are deleted, and for ``engines.log``, what the engines print.
            meter: Reads the energy that the device uses.
            samples: NumPy file with samples and labels, which every engine classifies in the first turn.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._references, self._types, self._plan, self._folder = list(references), types, plan, folder
        self._records, self._rng = tuple(map(EngineRecord, specs)), random.Random(plan.seed)  # noqa: S311 -- an order, no secret
        self._disturbances: list[tuple[Disturbance, ...]] = []
        self._meter, self._samples = meter, samples
        if meter is not None:
            meter.begin()

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
                    visitor = stack.enter_context(Visitor(record, home, plan=plan, meter=self._meter))
                    visitor.begin(expected)
                    if self._samples is not None and turn == 0:
                        visitor.classify(self._samples)
                    visitors.append(visitor)
            self._disturbances.append(_run_rounds(visitors, plan, rng=self._rng))
            if plan.kernel_runs and turn == 0:
                for visitor in visitors:
                    visitor.list_kernels()

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
    """Time engines against each other, with one reference; the arguments are those of ``EngineTiming``.

    Raises:
        EngineFailure: The reference fails.
    """
    timing = EngineTiming(specs, references=[reference], types=types, plan=plan, folder=folder)
    for _ in range(plan.processes):
        timing.run_turn()
    return timing.comparison


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

    def __init__(self, record: EngineRecord, home: Path, *, plan: EnginePlan, meter: Meter | None = None) -> None:
        self.record, self._plan, self._home, self._meter = record, plan, home, meter
        self.outputs = home / safe_file_name(record.spec.name)
        self._process = self._start()
        self._last: tuple[float, float] | None = None
        self._visits: dict[int, list[float]] = {}
        self._rates: dict[int, dict[int, float]] = {count: {} for count in plan.requests}
        self._consumed: dict[int, tuple[float, float]] = {}
        self._is_over = False

    def _start(self) -> EngineProcess:
        return EngineProcess(self.record.spec, threads=self._plan.threads, log=self._home.with_name("engines.log"))

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
        record.artifact_bytes = record.spec.artifact_bytes
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

    def classify(self, samples: Path) -> None:
        """Count the samples that the engine classifies right."""
        if self.record.failure:
            return
        try:
            answer = self._process.ask("classify", file=str(samples))
        except EngineFailure as error:
            self.record.accuracy = {"unavailable": str(error)}  # the engine's speed does not depend on it
            return
        self.record.accuracy = {"value": answer["correct"] / answer["count"], **answer}

    def list_kernels(self) -> None:
        """Ask the engine's profiler for the kernels of one inference; after the rounds, as it may slow the engine."""
        if self.record.failure or self._is_over:
            return
        try:
            answer = self._process.ask("kernels", deadline_s=OPEN_DEADLINE_S, runs=self._plan.kernel_runs)
        except EngineFailure as error:
            self.record.no_kernels = str(error)
            return
        self.record.no_kernels = answer.get("unavailable", "")
        self.record.kernels = [(name, seconds) for name, seconds in answer.get("kernels", ())]

    def _judge(self, expected: Sequence[Array]) -> None:
        outputs = _read_outputs(self.outputs)
        if len(outputs) != len(expected):
            self.record.failure = f"{len(outputs)} outputs instead of {len(expected)}"
            return
        pairs = zip(outputs, expected, strict=True)
        deviation = max(relative_deviation(_as_precise(output, right), right) for output, right in pairs)
        self.record.deviations.append(deviation)
        limit = max(self._plan.limit, self.record.spec.limit or self._plan.limit)
        if not deviation <= limit:
            self.record.failure = f"outputs deviate by {deviation:.2g} of the largest, {limit:.2g} is allowed"

    def visit(self, number: int) -> list[Visit]:
        """Time a few inferences in the round of this number, then several at a time; empty if the engine fails."""
        if self._is_over:
            return []
        plan, is_slow = self._plan, self.is_slow
        request = {"longest_s": plan.visit_s, "most": 1 if is_slow else plan.most, "warm_up": not is_slow}
        try:
            answer, visit = self._timed("visit", **request)
            self._visits[number] = answer["seconds"]
            if visit.energy_j is not None:
                count, (begin_s, end_s) = len(answer["seconds"]) + (not is_slow), answer["clock_s"]
                self._consumed[number] = visit.energy_j / count, visit.energy_j / (end_s - begin_s)
            return [visit, *self._visit_together(number)]
        except EngineFailure as error:
            self.record.failure = str(error)
            return []

    def _visit_together(self, number: int) -> Iterator[Visit]:
        """Run inferences at the same time, as many as the plan says; a slow engine does not."""
        reasons = self.record.no_rates
        for count in self._plan.requests:
            if count in reasons or self.is_slow:
                continue
            try:
                answer, visit = self._timed("together", requests=count, longest_s=self._plan.visit_s)
            except EngineFailure as error:
                reasons[count] = str(error)  # single inferences have their result
                self._revive()
                continue
            if "unavailable" in answer:
                reasons[count] = answer["unavailable"]
                continue
            self._rates[count][number] = answer["per_s"]
            yield visit

    def _revive(self) -> None:
        """Load the network in another process if the last one has ended; its first times are not recorded.

        If that fails too, the engine takes no further part in this process's rounds.
        """
        if self._process.is_alive:
            return
        self._process.close()
        self._process, self._last = self._start(), None
        try:
            self._process.open(self._home / "inputs.npz")
        except EngineFailure as error:
            _log.info("%s does not load again: %s", self.record.spec.name, error)
            self._is_over = True

    def _timed(self, verb: str, **request: Any) -> tuple[dict[str, Any], Visit]:
        """Return the answer to a request that runs inferences, and the times of the cores meanwhile."""
        time.sleep(self._plan.pause_s)
        usable = usable_processors()
        cores = usable if self.record.spec.own_threads else usable[: self._plan.threads]
        before, energy_before_j = CpuTimes.read(cores), self._energy_j()
        answer = self._process.ask(verb, **request)
        after, energy_after_j = CpuTimes.read(cores), self._energy_j()
        self._note_idle(answer)
        used_s = answer["cpu_s"][1] - answer["cpu_s"][0]
        foreign_s = max(0.0, after.busy - before.busy - used_s)
        is_read = energy_before_j is not None and energy_after_j is not None
        energy_j = energy_after_j - energy_before_j if is_read else None  # type: ignore[operator]
        return answer, Visit(after.total - before.total, foreign_s, after.stolen - before.stolen, energy_j)

    def _energy_j(self) -> float | None:
        return self._meter.read().energy_j if self._meter else None

    def _note_idle(self, answer: Mapping[str, Any]) -> None:
        """Record how much CPU time the process took since its last answer."""
        (begin_s, end_s), (used_s, used_at_end_s) = answer["clock_s"], answer["cpu_s"]
        if self._last is not None:
            share = (used_s - self._last[1]) / (begin_s - self._last[0])
            self.record.idle_share = max(self.record.idle_share, round(share, 3))
        self._last = end_s, used_at_end_s

    def keep(self, rounds: Sequence[int]) -> None:
        """Move the visits of the rounds that count to the record; those of a slow engine all count."""
        counted = [number for number in rounds if number in self._visits]
        # An engine that took no part in later rounds may have none that counts.
        kept = list(self._visits) if self.is_slow or not counted else counted
        self.record.visits.append([self._visits[number] for number in kept])
        for count, rates in self._rates.items():
            if rates:
                # An engine that was slow at first may have none in the rounds that count.
                own = [rates[number] for number in kept if number in rates] or list(rates.values())
                self.record.rates.setdefault(count, []).append(own)
        if consumed := [self._consumed[number] for number in kept if number in self._consumed]:
            self.record.energy_j.append([energy_j for energy_j, _ in consumed])
            self.record.power_w.append([power_w for _, power_w in consumed])
