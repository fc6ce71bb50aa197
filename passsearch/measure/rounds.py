"""Times artifacts in interleaved rounds, inside the timing process. Standard library and numpy only.

A *visit* runs one artifact a few times, each time from another depth of the stack (see ``stack``), and the fastest run
is its sample: disturbances only add time (Chen and Revels, Robust benchmarking in noisy environments, 2016). A *round*
visits every artifact once, in a new random order. Only samples of the same round are compared: a disturbance that lasts
longer than a round slows all artifacts of the round.
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

from passsearch.dialects.contract import Array, Executable
from passsearch.measure.after import AfterCheck
from passsearch.measure.mixture import WeightedSeconds
from passsearch.measure.processor import CpuTimes
from passsearch.measure.stack import DEPTHS, call_at_depth

STEAL_LIMIT, FOREIGN_LIMIT = 0.05, 0.10
"""Share of the pinned cores that the host or other processes may take before a round counts as disturbed."""

MIN_COUNTED_S = 0.1
"""Shortest round whose CPU counters are used: they count in ticks of 10 ms, which are too coarse for a shorter one."""

MIN_ROUNDS = 1
"""Number of undisturbed rounds that a race needs before its time limit can end it."""

FIRST_SHARE = 1 / 2
"""Share of a race's time that an inference must take for its first run to be a sample.

A first run also touches its memory for the first time, which takes up to some tenths of a second.
"""

BEATEN = math.log(2.0)
"""Log-ratio by which the baseline must be slower to leave a race."""


@dataclass(frozen=True)
class RoundPlan:
    """Plan by which one timing process samples its artifacts.

    Attributes:
        rounds: Number of rounds to keep. As many again may run to replace disturbed ones.
        runs: Number of runs in a visit, of which the fastest is the sample. Reduced if they last longer than
            ``visit_s``.
        run_s: Shortest duration of one run in seconds; determines the number of inferences in a run.
        visit_s: Longest duration of one visit in seconds; a single run may exceed it.
        race_s: Seconds after which ``MIN_ROUNDS`` undisturbed rounds are enough, and after twice as many seconds
            disturbed ones.
        seed: Seed of the visiting order and of the stack depths.
        critical: One-sided critical values in standard errors, by number of rounds so far. An artifact that is slower
            than the fastest by more leaves the race. Infinite or missing values keep all artifacts.
        margin: Log-ratio by which an artifact must be slower to leave; the baseline's is ``BEATEN``.
        flush_bytes: Bytes to write before every run, to time with cold caches; a run is then one inference.
        depths: Number of stack depths that runs start at; 1 starts all runs at the same depth.
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
        warmups: Number of runs that are discarded.
        samples: Number of runs that are kept; the mean leaves out values beyond three standard deviations.
    """

    warmups: int = 100
    samples: int = 1000

    @property
    def runs(self) -> int:
        """Number of all runs of one artifact."""
        return self.warmups + self.samples


def plan_from_json(data: Mapping[str, Any]) -> RoundPlan | Cf22Plan:
    """Return the plan that a request describes by its fields."""
    return Cf22Plan(**data) if "warmups" in data else RoundPlan(**data)


def measure(
    executables: Sequence[Executable],
    *,
    inputs: Mapping[str, Array],
    plan: RoundPlan | Cf22Plan,
    cores: list[int],
    check: AfterCheck | None = None,
) -> dict[str, Any]:
    """Time artifacts by a plan; the first is the baseline.

    Args:
        executables: The artifacts.
        inputs: Inputs of every run.
        plan: The plan.
        cores: Cores that the process is pinned to, one for each kernel thread; see ``processor.pin_process``.
        check: Compares an artifact with the reference after its last round.

    Returns:
        ``samples`` (seconds per inference, one list per artifact), ``spans`` (begin and end of every round on the
        monotonic clock), ``conditions``, for networks with several cases ``parts`` (the samples' seconds by case), and
        with ``check`` what it returns for each artifact, ``after``.
    """
    counters = partial(CpuTimes.read, cores)
    if isinstance(plan, Cf22Plan):
        for executable in executables:
            executable.run(inputs)
        before = counters()
        samples, dropped = [_sample_in_sequence(executable, plan) for executable in executables], 0
        rounds, spread = [Round.from_cpu_times({}, before=before, after=counters())], None
    else:
        race = run_race(executables, plan, inputs=inputs, watch=counters)
        samples, dropped, rounds, spread = race.samples(), race.dropped_count, race.valid_rounds(), race.stack_spread()
    parts = [[list(each.parts) for each in row if isinstance(each, WeightedSeconds)] for row in samples]
    return {
        **({"parts": parts} if any(parts) else {}),
        **({"after": [check(executable) for executable in executables]} if check else {}),
        "samples": samples,
        "spans": [round_.span for round_ in rounds],
        "conditions": {
            "threads": len(cores),
            "affinity": cores,
            "cache": "flushed" if isinstance(plan, RoundPlan) and plan.flush_bytes else "warm",
            "steal_percent": _mean_percent([round_.steal for round_ in rounds]),
            "foreign_percent": _mean_percent([round_.foreign for round_ in rounds]),
            "rounds_dropped": dropped,
            "stack_spread": spread,
            "load": round(os.getloadavg()[0], 2),
            "clocks": _range([round_.clock_hz for round_ in rounds]),
            "throttled": _throttled(rounds),
        },
    }


def is_busy(conditions: Mapping[str, Any]) -> bool:
    """Return whether others used the cores while a process timed, by the conditions that it reports."""
    limits = {"steal_percent": STEAL_LIMIT, "foreign_percent": FOREIGN_LIMIT}
    return any((conditions.get(name) or 0.0) > 100 * limit for name, limit in limits.items())


def run_race(
    executables: Sequence[Executable],
    plan: RoundPlan,
    *,
    inputs: Mapping[str, Array],
    watch: Callable[[], CpuTimes],
    now: Callable[[], float] = time.perf_counter,
) -> "Race":
    """Run rounds until the race is over, and return it.

    Args:
        executables: The artifacts; the first is the baseline.
        plan: The plan.
        inputs: Inputs of every run.
        watch: Reads the CPU counters of the cores.
        now: The clock, in seconds.
    """
    rng, flush = random.Random(plan.seed), np.zeros(plan.flush_bytes, np.uint8)  # noqa: S311
    before = watch()
    order = random.Random(plan.seed).sample(range(len(executables)), len(executables))  # noqa: S311
    estimates = {index: _estimate(executables[index], inputs, longest_s=plan.visit_s, now=now) for index in order}
    once_s = [estimates[index] for index in range(len(executables))]
    counts = [1 if plan.flush_bytes else max(1, math.ceil(plan.run_s / seconds)) for seconds in once_s]
    # The slowest artifact decides, so that all artifacts draw the same number of samples.
    runs = max(1, min(plan.runs, int(plan.visit_s / max(*once_s, plan.run_s))))
    # The caches hold megabytes. A slow network has read its own data anew within a hundredth of an inference, so a run
    # to fill the caches would only cost time.
    fill_caches = [not plan.flush_bytes and seconds * plan.runs <= plan.visit_s for seconds in once_s]

    def visit(index: int) -> list[float]:
        if fill_caches[index]:
            executables[index].run_repeatedly(1)  # the caches still hold the data of the artifact before
        time_run = partial(_time_run, executables[index], counts[index], flush=flush, now=now)
        return [call_at_depth(rng.randrange(plan.depths), time_run) for _ in range(runs)]

    race = Race(len(executables), plan, rng=rng)
    is_long = [seconds > FIRST_SHARE * plan.race_s for seconds in once_s]
    if any(is_long):
        # Another run would take as long again, and the first one's cold caches and pages are a small part of it.
        first = {index: [once_s[index]] if is_long[index] else visit(index) for index in order}
        race.add(Round.from_cpu_times(first, before=before, after=watch()))
    while not race.is_over:
        before = watch()
        race.add(
            Round.from_cpu_times({index: visit(index) for index in race.next_order()}, before=before, after=watch())
        )
    return race


def _estimate(
    executable: Executable, inputs: Mapping[str, Array], *, longest_s: float, now: Callable[[], float]
) -> float:
    """Return the seconds of one inference, roughly."""
    start = now()
    executable.run(inputs)
    first_s = now() - start
    events_s = executable.event_time_s(1)
    # The first run on a device also loads the code, which may take longer than all others. Of several cases this is the
    # mean by their weights.
    if events_s is not None:
        return max(events_s, 1e-7)
    # The first run also loads pages and caches. That is no part of an inference, but beside one of seconds it does not
    # count, and another run would take as long again.
    return first_s if first_s > longest_s else max(_time_run(executable, 1, now=now), 1e-7)


def _time_run(
    executable: Executable, inferences: int, *, now: Callable[[], float], flush: Array | None = None
) -> float:
    """Return the seconds per inference of one run."""
    if flush is not None and flush.size:
        flush += 1  # writing the whole array evicts the artifact's data from the caches
    # A device's own events leave out the time of the call. A CPU has none.
    events_s = executable.event_time_s(inferences)
    if events_s is not None:
        return events_s
    start = now()
    executable.run_repeatedly(inferences)
    return (now() - start) / inferences


@dataclass(frozen=True)
class Round:
    """One finished round.

    Attributes:
        runs: Seconds per inference of every run, by artifact; only artifacts that are still in the race.
        steal: Share of the cores' time that the host of a virtual machine took.
        foreign: Share of the cores' time that other processes took.
        throttles: Number of times a core reduced its clock for heat; ``None`` if the system does not report it.
        clock_hz: Lowest clock of the cores; ``None`` if the system does not report it.
        span: Begin and end on the monotonic clock, in seconds.
    """

    runs: Mapping[int, Sequence[float]]
    steal: float
    foreign: float
    throttles: int | None = None
    clock_hz: int | None = None
    span: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def from_cpu_times(cls, runs: Mapping[int, Sequence[float]], *, before: CpuTimes, after: CpuTimes) -> "Round":
        """Build a round from CPU counters read before and after."""
        total = after.total - before.total
        throttles = None if after.throttles is None else after.throttles - (before.throttles or 0)
        clock_hz = min(filter(None, (before.clock_hz, after.clock_hz)), default=None)
        span = (before.time_s, after.time_s)
        if total < MIN_COUNTED_S:
            return cls(runs, 0.0, 0.0, throttles, clock_hz, span)
        foreign = (after.busy - before.busy) - (after.own - before.own)
        shares = (after.stolen - before.stolen) / total, max(0.0, foreign / total)
        return cls(runs, *shares, throttles, clock_hz, span)

    @property
    def samples(self) -> dict[int, float]:
        """Sample of each artifact, in seconds per inference: its fastest run."""
        return {index: min(runs) for index, runs in self.runs.items()}

    @property
    def disturbance(self) -> float:
        """Excess over the limits; 0 for an undisturbed round."""
        # Timings must not count here: dropping rounds by their timings would bias the result.
        return max(self.steal / STEAL_LIMIT, self.foreign / FOREIGN_LIMIT, 1.0) - 1.0 + (self.throttles or 0)


class Race:
    """The finished rounds of one process and the artifacts that are still timed."""

    def __init__(self, artifacts: int, plan: RoundPlan, *, rng: random.Random) -> None:
        """Start with all artifacts; artifact 0 is the baseline."""
        self._artifacts = range(artifacts)
        self._plan = plan
        self._rng = rng
        self._contenders = list(self._artifacts)
        self._rounds: list[Round] = []

    @property
    def is_over(self) -> bool:
        """True after enough rounds, or when one artifact is left."""
        if self._one_remains or self._time_is_up:
            return True
        # Disturbed rounds are replaced, but a machine that is always disturbed must not keep the race going.
        is_overdue = len(self._rounds) >= 2 * self._plan.rounds or self._duration_s >= 2 * self._plan.race_s
        return is_overdue or len(self._undisturbed_rounds()) >= self._plan.rounds

    @property
    def dropped_count(self) -> int:
        """Number of rounds that were dropped as disturbed."""
        return len(self._rounds) - len(self.valid_rounds())

    def next_order(self) -> list[int]:
        """Return the artifacts of the next round in a new random order."""
        self._rng.shuffle(self._contenders)
        return list(self._contenders)

    def add(self, round_: Round) -> None:
        """Add a finished round and drop the artifacts that are certainly slower."""
        self._rounds.append(round_)
        self._drop_slow_contenders()

    def valid_rounds(self) -> list[Round]:
        """Return the rounds that count: the undisturbed ones and, if a full race has too few, the least disturbed."""
        if self._one_remains or self._time_is_up:
            return self._undisturbed_rounds()
        ranking = sorted(range(len(self._rounds)), key=lambda place: self._rounds[place].disturbance)
        return [self._rounds[place] for place in sorted(ranking[: self._plan.rounds])]

    def samples(self) -> list[list[float]]:
        """Return the samples of the valid rounds by artifact; artifacts that left the race have fewer."""
        rounds = self.valid_rounds()
        return [[round_.samples[index] for round_ in rounds if index in round_.samples] for index in self._artifacts]

    def stack_spread(self) -> list[float]:
        """Return the median run as a multiple of the fastest, by artifact: the cost of an ordinary stack depth."""
        spreads = []
        for index in self._artifacts:
            runs = [run for round_ in self.valid_rounds() for run in round_.runs.get(index, ())]
            spreads.append(round(float(np.median(runs)) / min(runs), 4))
        return spreads

    @property
    def _one_remains(self) -> bool:
        return len(self._contenders) == 1 and len(self._artifacts) > 1

    @property
    def _time_is_up(self) -> bool:
        return self._duration_s >= self._plan.race_s and len(self._undisturbed_rounds()) >= MIN_ROUNDS

    @property
    def _duration_s(self) -> float:
        return self._rounds[-1].span[1] - self._rounds[0].span[0] if self._rounds else 0.0

    def _undisturbed_rounds(self) -> list[Round]:
        return [round_ for round_ in self._rounds if round_.disturbance == 0.0]

    def _drop_slow_contenders(self) -> None:
        rounds = self._undisturbed_rounds()
        if len(rounds) >= len(self._plan.critical) or math.isinf(self._plan.critical[len(rounds)]):
            return
        critical = self._plan.critical[len(rounds)]
        logs = {index: np.log([round_.samples[index] for round_ in rounds]) for index in self._contenders}
        leader = min(logs, key=lambda index: float(np.median(logs[index])))
        for index in [index for index in self._contenders if index != leader]:
            lag = logs[index] - logs[leader]
            # All ratios refer to the baseline, so it stays unless its ratio is past all doubt.
            margin = self._plan.margin if index else BEATEN
            if lag.mean() - critical * lag.std(ddof=1) / math.sqrt(len(lag)) > margin:
                self._contenders.remove(index)


def _sample_in_sequence(executable: Executable, plan: Cf22Plan) -> list[float]:
    executable.run_repeatedly(plan.warmups)
    return [_time_run(executable, 1, now=time.perf_counter) for _ in range(plan.samples)]


def _range(clocks_hz: Sequence[int | None]) -> list[int] | None:
    """Return the lowest and the highest of the reported clocks, in Hz; ``None`` if no clock is reported."""
    values = [clock_hz for clock_hz in clocks_hz if clock_hz is not None]
    return [min(values), max(values)] if values else None


def _throttled(rounds: Sequence[Round]) -> bool | None:
    """Return whether a core reduced its clock for heat; ``None`` if the system does not report it."""
    counts = [round_.throttles for round_ in rounds if round_.throttles is not None]
    return any(counts) if counts else None


def _mean_percent(shares: Sequence[float]) -> float:
    return round(100 * sum(shares) / max(len(shares), 1), 2)
