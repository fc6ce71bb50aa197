"""Interleaved rounds inside the timing process. Standard library and numpy only.

Where its memory comes to lie slows an artifact for the life of a process, so each is loaded twice and the faster load
goes on (``place``). A visit runs one artifact a few times and keeps the fastest run: whatever disturbs a run only adds
time (Chen and Revels, Robust benchmarking in noisy environments, 2016). A round visits every artifact once in an order
drawn anew, and only samples of one round are compared: what slows the machine for longer than a round slows all.
"""

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import TensorType
from passsearch.dialects.contract import Executable, random_inputs
from passsearch.measure.processor import CpuTimes

STEAL_LIMIT, FOREIGN_LIMIT = 0.05, 0.10
"""Share of the pinned cores that the host or other processes may take before a round counts as disturbed."""

READABLE_S = 0.1
"""Processor time is counted in ticks of 10 ms, which say nothing of a shorter round."""


@dataclass(frozen=True)
class RoundPlan:
    """How the artifacts of one timing process are sampled.

    Attributes:
        rounds: Rounds kept. Up to as many again are run in place of disturbed ones.
        placing_rounds: Rounds before them, which warm up and choose each artifact's load; 1 or more.
        runs: Runs of one visit; its sample is the fastest. Fewer where that many would last longer than ``visit_s``.
        run_s: Least duration of one run in seconds; sets the number of inferences it averages over.
        visit_s: Longest duration of one visit in seconds, where a single run is not longer already.
        seed: Seed of the visiting order.
        critical: By number of rounds so far, the one-sided critical value (in standard errors) beyond which an
            artifact is slower than the fastest and leaves the race; infinite or missing means nobody leaves.
        margin: Log-ratio an artifact must be slower by, to leave.
        loads: How often the process loads every artifact.
        flush_bytes: Written before every run, to time with cold caches; each run is then one inference.
    """

    rounds: int = 6
    placing_rounds: int = 2
    runs: int = 2
    run_s: float = 0.03
    visit_s: float = 0.6
    seed: int = 0
    critical: Sequence[float] = ()
    margin: float = 0.02
    loads: int = 2
    flush_bytes: int = 0


@dataclass(frozen=True)
class Cf22Plan:
    """The paper's protocol: one artifact after the other, warm-ups, then single runs (Verma et al., CF'22, section 4).

    Attributes:
        warmups: Runs thrown away.
        samples: Runs kept; values beyond three standard deviations are left out of their mean.
        seed: Not used, nothing is drawn.
        loads: How often the process loads every artifact.
    """

    warmups: int = 100
    samples: int = 1000
    seed: int = 0
    loads: int = 1


def plan_of(data: Mapping[str, Any]) -> RoundPlan | Cf22Plan:
    """A plan from its fields, as a request carries them."""
    return Cf22Plan(**data) if "warmups" in data else RoundPlan(**data)


def measure(
    executables: Sequence[Executable], *, types: Mapping[str, TensorType], plan: RoundPlan | Cf22Plan, threads: int
) -> dict[str, Any]:
    """Sample artifacts by a plan; the first is the baseline.

    Answers seconds per inference, one list per artifact, and the conditions they were sampled under.

    Args:
        executables: All artifacts, then all of them loaded once more, as often as the plan says.
        types: The network's inputs.
        plan: See there.
        threads: Threads the kernels run on; the process is pinned to as many cores.
    """
    cores = sorted(os.sched_getaffinity(0))[:threads]
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
    for executable in executables:
        executable.run(random_inputs(types, seed=0))
    watch = partial(CpuTimes.read, cores)
    if isinstance(plan, Cf22Plan):
        before = watch()
        samples, dropped, placement = [_in_a_row(executable, plan) for executable in executables], 0, None
        taken = [Round.of({}, before, watch())]
    else:
        placing = place(executables, plan)
        race = run_race([executables[index] for index in placing.chosen], plan, once_s=placing.once_s, watch=watch)
        samples, dropped, taken, placement = race.samples(), race.dropped, race.kept(), placing.spread
    return {
        "samples": samples,
        "conditions": {
            "threads": threads,
            "affinity": cores,
            "cache": "flushed" if isinstance(plan, RoundPlan) and plan.flush_bytes else "warm",
            "steal_percent": _percent([each.steal for each in taken]),
            "foreign_percent": _percent([each.foreign for each in taken]),
            "rounds_dropped": dropped,
            "placement": placement,
            "load": round(os.getloadavg()[0], 2),
            "clocks": _ends([each.clock_hz for each in taken]),
            "throttled": _throttled(taken),
        },
    }


@dataclass(frozen=True)
class Placing:
    """The better load of every artifact.

    Attributes:
        chosen: Its place among all that were loaded.
        once_s: Its fastest inference.
        spread: The slowest load's time as a multiple of the fastest's.
    """

    chosen: Sequence[int]
    once_s: Sequence[float]
    spread: Sequence[float]


def place(executables: Sequence[Executable], plan: RoundPlan) -> Placing:
    """Run every load a few times, interleaved, and choose; these runs are the warm-up and no samples.

    A process misplaces an artifact now and then, hardly ever twice (``benchmarks/results/placement.json``).
    """
    artifacts = len(executables) // plan.loads
    once_s = [max(min(executable.sample(1, 1)), 1e-7) for executable in executables]
    for _ in range(plan.placing_rounds - 1):
        for index, executable in enumerate(executables):
            once_s[index] = min(once_s[index], *executable.sample(_inferences(once_s[index], plan), 1))
    loads = [range(first, len(executables), artifacts) for first in range(artifacts)]
    chosen = [min(each, key=once_s.__getitem__) for each in loads]
    spread = [round(max(once_s[index] for index in each) / min(once_s[index] for index in each), 4) for each in loads]
    return Placing(chosen, [once_s[index] for index in chosen], spread)


def _inferences(once_s: float, plan: RoundPlan) -> int:
    return 1 if plan.flush_bytes else math.ceil(plan.run_s / once_s)


def run_race(
    executables: Sequence[Executable], plan: RoundPlan, *, once_s: Sequence[float], watch: Callable[[], CpuTimes]
) -> "Race":
    """Rounds until there are enough; ``watch`` reads what else the cores are busy with."""
    counts = [_inferences(seconds, plan) for seconds in once_s]
    runs = max(1, min(plan.runs, int(plan.visit_s / max(once_s[0], plan.run_s))))
    race = Race(len(executables), plan)
    while not race.over:
        before = watch()
        seconds = {
            index: min(executables[index].sample(counts[index], runs, plan.flush_bytes)) for index in race.order()
        }
        race.take(Round.of(seconds, before, watch()))
    return race


@dataclass(frozen=True)
class Round:
    """One round: a sample per artifact still in the race, and what else the cores were busy with meanwhile."""

    seconds: Mapping[int, float]
    steal: float
    foreign: float
    throttles: int | None = None
    clock_hz: int | None = None

    @classmethod
    def of(cls, seconds: Mapping[int, float], before: CpuTimes, after: CpuTimes) -> "Round":
        """From the processor's state around it."""
        total = after.total - before.total
        throttles = None if after.throttles is None else after.throttles - (before.throttles or 0)
        clock_hz = min(filter(None, (before.clock_hz, after.clock_hz)), default=None)
        if total < READABLE_S:
            return cls(seconds, 0.0, 0.0, throttles, clock_hz)
        foreign = (after.busy - before.busy) - (after.own - before.own)
        shares = (after.stolen - before.stolen) / total, max(0.0, foreign / total)
        return cls(seconds, *shares, throttles, clock_hz)

    @property
    def disturbance(self) -> float:
        """How far beyond the limits it was; 0 for an undisturbed round. No artifact's timing has a part in it."""
        return max(self.steal / STEAL_LIMIT, self.foreign / FOREIGN_LIMIT, 1.0) - 1.0 + (self.throttles or 0)


class Race:
    """The rounds so far and who is still in them."""

    def __init__(self, artifacts: int, plan: RoundPlan) -> None:
        """Start with all artifacts; the first is the baseline."""
        self._everyone = range(artifacts)
        self._plan = plan
        self._rng = random.Random(plan.seed)  # noqa: S311
        self._running = list(self._everyone)
        self._rounds: list[Round] = []

    @property
    def over(self) -> bool:
        """Enough undisturbed rounds, twice as many rounds as planned, or nobody left to compare the baseline with."""
        if self._running == [0] and len(self._everyone) > 1:
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
        """The undisturbed rounds; where there are too few, the least disturbed fill up."""
        ranked = sorted(range(len(self._rounds)), key=lambda place: self._rounds[place].disturbance)
        return [self._rounds[place] for place in sorted(ranked[: self._plan.rounds])]

    def samples(self) -> list[list[float]]:
        """Seconds per inference of the kept rounds, by artifact; those who left have fewer."""
        taken = self.kept()
        return [[each.seconds[index] for each in taken if index in each.seconds] for index in self._everyone]

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
    executable.sample(1, plan.warmups)
    return list(executable.sample(1, plan.samples))


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
