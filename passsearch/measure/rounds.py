"""Interleaved rounds inside the timing process. Standard library and numpy only.

A visit runs one artifact a few times, each from another place on the stack (see ``stack``), and keeps the fastest: what
disturbs a run only adds time (Chen and Revels, Robust benchmarking in noisy environments, 2016). A round visits every
artifact once in an order drawn anew, and only samples of one round are compared: what slows the machine for longer than
a round slows all of them.
"""

import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, Executable, random_inputs
from passsearch.measure.processor import CpuTimes
from passsearch.measure.stack import DEPTHS, at_depth

STEAL_LIMIT, FOREIGN_LIMIT = 0.05, 0.10
"""Share of the pinned cores that the host or other processes may take before a round counts as disturbed."""

READABLE_S = 0.1
"""Processor time is counted in ticks of 10 ms, which say nothing of a shorter round."""

LEAST_ROUNDS = 4
"""Of a race that is cut short."""


@dataclass(frozen=True)
class RoundPlan:
    """How the artifacts of one timing process are sampled.

    Attributes:
        rounds: Rounds kept. Up to as many again are run in place of disturbed ones.
        runs: Runs of one visit; its sample is the fastest. Fewer where that many would last longer than ``visit_s``.
        run_s: Least duration of one run in seconds; sets the number of inferences it averages over.
        visit_s: Longest duration of one visit in seconds, where a single run is not longer already.
        race_s: Seconds after which ``LEAST_ROUNDS`` undisturbed rounds are enough.
        seed: Seed of the visiting order and of the places on the stack.
        critical: By number of rounds so far, the one-sided critical value (in standard errors) beyond which an
            artifact is slower than the fastest and leaves the race; infinite or missing means nobody leaves.
        margin: Log-ratio an artifact must be slower by, to leave.
        flush_bytes: Written before every run, to time with cold caches; each run is then one inference.
        depths: Places on the stack that runs begin at; 1 keeps them all at one.
    """

    rounds: int = 6
    runs: int = 4
    run_s: float = 0.03
    visit_s: float = 2.0
    race_s: float = math.inf
    seed: int = 0
    critical: Sequence[float] = ()
    margin: float = 0.02
    flush_bytes: int = 0
    depths: int = DEPTHS


@dataclass(frozen=True)
class Cf22Plan:
    """The paper's protocol: one artifact after the other, warm-ups, then single runs (Verma et al., CF'22, section 4).

    Attributes:
        warmups: Runs thrown away.
        samples: Runs kept; values beyond three standard deviations are left out of their mean.
        seed: Not used, nothing is drawn.
    """

    warmups: int = 100
    samples: int = 1000
    seed: int = 0

    @property
    def runs(self) -> int:
        """All runs of one artifact."""
        return self.warmups + self.samples


def plan_of(data: Mapping[str, Any]) -> RoundPlan | Cf22Plan:
    """A plan from its fields, as a request carries them."""
    return Cf22Plan(**data) if "warmups" in data else RoundPlan(**data)


def measure(
    executables: Sequence[Executable], *, types: Mapping[str, TensorType], plan: RoundPlan | Cf22Plan, cores: list[int]
) -> dict[str, Any]:
    """Sample artifacts by a plan; the first is the baseline.

    Answers seconds per inference, one list per artifact, begin and end of the rounds on the monotonic clock, and the
    conditions they were sampled under.

    Args:
        executables: What is timed.
        types: The network's inputs.
        plan: See there.
        cores: Those the process is pinned to, one for each thread that kernels run on; see ``processor.pin``.
    """
    for executable in executables:
        executable.run(random_inputs(types, seed=0))
    watch = partial(CpuTimes.read, cores)
    if isinstance(plan, Cf22Plan):
        before = watch()
        samples, dropped = [_in_a_row(executable, plan) for executable in executables], 0
        taken, spread = [Round.of({}, before=before, after=watch())], None
    else:
        race = run_race(executables, plan, watch=watch)
        samples, dropped, taken, spread = race.samples(), race.dropped, race.kept(), race.spread()
    return {
        "samples": samples,
        "spans": [each.span for each in taken],
        "conditions": {
            "threads": len(cores),
            "affinity": cores,
            "cache": "flushed" if isinstance(plan, RoundPlan) and plan.flush_bytes else "warm",
            "steal_percent": _percent([each.steal for each in taken]),
            "foreign_percent": _percent([each.foreign for each in taken]),
            "rounds_dropped": dropped,
            "stack_spread": spread,
            "load": round(os.getloadavg()[0], 2),
            "clocks": _ends([each.clock_hz for each in taken]),
            "throttled": _throttled(taken),
        },
    }


def run_race(
    executables: Sequence[Executable],
    plan: RoundPlan,
    *,
    watch: Callable[[], CpuTimes],
    now: Callable[[], float] = time.perf_counter,
) -> "Race":
    """Rounds until there are enough.

    Args:
        executables: What is timed; the first is the baseline.
        plan: See there.
        watch: Reads what else the cores are busy with.
        now: The clock, in seconds.
    """
    rng, flush = random.Random(plan.seed), np.zeros(plan.flush_bytes, np.uint8)  # noqa: S311
    once_s = [max(_timed(executable, 1, now=now), 1e-7) for executable in executables]
    counts = [1 if plan.flush_bytes else max(1, math.ceil(plan.run_s / seconds)) for seconds in once_s]
    runs = max(1, min(plan.runs, int(plan.visit_s / max(*once_s, plan.run_s))))
    slow = min(once_s) * plan.runs > plan.visit_s  # has its own data in the caches within milliseconds of an inference
    race = Race(len(executables), plan, rng=rng)
    while not race.over:
        before, visits = watch(), {}
        for index in race.order():
            if not slow:
                executables[index].spin(1)  # the caches hold what another artifact left there
            turn = partial(_timed, executables[index], counts[index], flush=flush, now=now)
            visits[index] = [at_depth(rng.randrange(plan.depths), turn) for _ in range(runs)]
        race.take(Round.of(visits, before=before, after=watch()))
    return race


def _timed(executable: Executable, inferences: int, *, now: Callable[[], float], flush: Array | None = None) -> float:
    """Seconds per inference of one run."""
    if flush is not None and flush.size:
        flush += 1
    by_events_s = executable.by_events(inferences)
    if by_events_s is not None:
        return by_events_s
    start = now()
    executable.spin(inferences)
    return (now() - start) / inferences


@dataclass(frozen=True)
class Round:
    """One round: the runs of each artifact still in the race, and what else the cores were busy with meanwhile."""

    runs: Mapping[int, Sequence[float]]
    steal: float
    foreign: float
    throttles: int | None = None
    clock_hz: int | None = None
    span: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, runs: Mapping[int, Sequence[float]], *, before: CpuTimes, after: CpuTimes) -> "Round":
        """From the processor's state around it."""
        total = after.total - before.total
        throttles = None if after.throttles is None else after.throttles - (before.throttles or 0)
        clock_hz = min(filter(None, (before.clock_hz, after.clock_hz)), default=None)
        span = (before.time_s, after.time_s)
        if total < READABLE_S:
            return cls(runs, 0.0, 0.0, throttles, clock_hz, span)
        foreign = (after.busy - before.busy) - (after.own - before.own)
        shares = (after.stolen - before.stolen) / total, max(0.0, foreign / total)
        return cls(runs, *shares, throttles, clock_hz, span)

    @property
    def seconds(self) -> dict[int, float]:
        """A sample per artifact: its fastest run."""
        return {index: min(runs) for index, runs in self.runs.items()}

    @property
    def disturbance(self) -> float:
        """How far beyond the limits it was; 0 for an undisturbed round. No artifact's timing has a part in it."""
        return max(self.steal / STEAL_LIMIT, self.foreign / FOREIGN_LIMIT, 1.0) - 1.0 + (self.throttles or 0)


class Race:
    """The rounds so far and who is still in them."""

    def __init__(self, artifacts: int, plan: RoundPlan, *, rng: random.Random) -> None:
        """Start with all artifacts; the first is the baseline."""
        self._everyone = range(artifacts)
        self._plan = plan
        self._rng = rng
        self._running = list(self._everyone)
        self._rounds: list[Round] = []

    @property
    def over(self) -> bool:
        """Enough undisturbed rounds, twice as many rounds as planned, or nobody left to compare the baseline with."""
        if self._alone or self._cut_short:
            return True
        return len(self._calm()) >= self._plan.rounds or len(self._rounds) >= 2 * self._plan.rounds

    @property
    def dropped(self) -> int:
        """Rounds thrown away as disturbed."""
        return len(self._rounds) - len(self.kept())

    def order(self) -> list[int]:
        """Who is visited in the next round, in a new order."""
        self._rng.shuffle(self._running)
        return list(self._running)

    def take(self, finished: Round) -> None:
        """Take in a round."""
        self._rounds.append(finished)
        self._drop_the_slow()

    def kept(self) -> list[Round]:
        """The undisturbed rounds; where a whole race has too few, the least disturbed fill up."""
        if self._alone or self._cut_short:
            return self._calm()
        ranked = sorted(range(len(self._rounds)), key=lambda place: self._rounds[place].disturbance)
        return [self._rounds[place] for place in sorted(ranked[: self._plan.rounds])]

    def samples(self) -> list[list[float]]:
        """Seconds per inference of the kept rounds, by artifact; those who left have fewer."""
        taken = self.kept()
        return [[each.seconds[index] for each in taken if index in each.seconds] for index in self._everyone]

    def spread(self) -> list[float]:
        """By artifact, the median run as a multiple of the fastest: what an ordinary place on the stack costs."""
        found = []
        for index in self._everyone:
            runs = [run for each in self.kept() for run in each.runs.get(index, ())]
            found.append(round(float(np.median(runs)) / min(runs), 4))
        return found

    @property
    def _alone(self) -> bool:
        return self._running == [0] and len(self._everyone) > 1

    @property
    def _cut_short(self) -> bool:
        calm = self._calm()
        lasted_s = self._rounds[-1].span[1] - self._rounds[0].span[0] if self._rounds else 0.0
        return lasted_s >= self._plan.race_s and len(calm) >= LEAST_ROUNDS

    def _calm(self) -> list[Round]:
        return [each for each in self._rounds if each.disturbance == 0.0]

    def _drop_the_slow(self) -> None:
        rounds = self._calm()
        if len(rounds) >= len(self._plan.critical) or math.isinf(self._plan.critical[len(rounds)]):
            return
        logs = {index: np.log([each.seconds[index] for each in rounds]) for index in self._running}
        leader = min(logs, key=lambda index: float(np.median(logs[index])))
        critical = self._plan.critical[len(rounds)]
        for index in [each for each in self._running if each not in (0, leader)]:
            lag = logs[index] - logs[leader]
            if lag.mean() - critical * lag.std(ddof=1) / math.sqrt(len(lag)) > self._plan.margin:
                self._running.remove(index)


def _in_a_row(executable: Executable, plan: Cf22Plan) -> list[float]:
    executable.spin(plan.warmups)
    return [_timed(executable, 1, now=time.perf_counter) for _ in range(plan.samples)]


def _ends(clocks_hz: Sequence[int | None]) -> list[int] | None:
    """The lowest and the highest; ``None`` where none was read."""
    known = [each for each in clocks_hz if each is not None]
    return [min(known), max(known)] if known else None


def _throttled(rounds: Sequence[Round]) -> bool | None:
    """Whether a core slowed itself down in a round that was kept; ``None`` where the system does not tell."""
    known = [each.throttles for each in rounds if each.throttles is not None]
    return any(known) if known else None


def _percent(shares: Sequence[float]) -> float:
    return round(100 * sum(shares) / max(len(shares), 1), 2)
