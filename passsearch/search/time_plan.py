"""How a run's time limit is divided: the search leaves enough of it to the shortlist and the confirmation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from passsearch.core import UNLIMITED, TimeLimit
from passsearch.evaluate import OVERTIME, MeasurementPlans
from passsearch.measure import WindowPlan
from passsearch.objectives import MeteredObjective
from passsearch.search.confirm import LEAST_RACE_S, LEAST_REPETITIONS, slow_baseline_processes
from passsearch.search.options import RunOptions
from passsearch.search.records import Scored
from passsearch.search.rivals import Beside, planned_s

FRESH_PROCESS_S, SHORTLIST_PROCESS_S = 3.0, 10.0
"""Time to start a compiler process and to import a network, and time of one process of a shortlist, roughly."""

LOAD_BYTES_PER_S = 250e6
"""Bytes of an artifact that a timing process reads in a second, roughly: 650 MB of GPT-2 take 2.6 s."""

TIMED_BESIDE, SHORTLISTED = 4, 4
"""Number of artifacts in a process of a confirmation (one less with a slow baseline), and usually in a shortlist's."""

FURTHER_SHARE = 0.1
"""Largest share of a time limit that is kept for compiles whose only purpose is the compile time."""

LONGEST_START_S = 15.0
"""Longest start of a process that is planned with: an import from a framework takes longer, and happens once."""

MOST_RESERVE = 0.6
"""Largest share of a time limit that the search leaves to more than the shortest confirmation."""

TO_THE_END = "plan: search to the end, because a confirmation takes longer than is left"


@dataclass(frozen=True)
class TimePlan:
    """The times that a confirmation takes, estimated from what the search measured.

    Attributes:
        plans: Measurement plans of the session.
        options: Options of the run.
        time_limit: Time limit of the run.
        has_meter: True if power and energy can be read.
        start_s: Time to start a compiler process and to import the network, as this run has seen it.
        earlier_s: Time that earlier starts of the run took, which is part of the time limit.
        earlier_limit_s: Time limit of the start before this one.
        beside: Other engines that the winner is measured beside, after its confirmation.
    """

    plans: MeasurementPlans
    options: RunOptions
    time_limit: TimeLimit = UNLIMITED
    has_meter: bool = False
    start_s: float = FRESH_PROCESS_S
    earlier_s: float = 0.0
    earlier_limit_s: float = math.inf
    beside: Beside | None = None

    def search_end(self, baseline: Scored, fastest: Scored, leader: Scored) -> tuple[float, str]:
        """Return when the search ends, on the clock of the time limit, and the plan for what is left in words.

        Args:
            baseline: The baseline.
            fastest: The baseline again, or a candidate that is more than twice as fast.
            leader: The best candidate so far, which would be confirmed; the baseline until there is one.
        """
        limit_s, left_s = self.time_limit.limit_s, self.time_limit.left_s(overtime=OVERTIME)
        least_s = self.least_confirm_s(baseline, leader) if self.options.repetitions else 0.0
        if least_s > left_s:
            # What is left of the limit confirms nothing. One more process checks what the result is deployed by.
            return limit_s - self.start_s - self.rivals_s(fastest), TO_THE_END
        # A candidate that is begun just before the end takes about as long as the leader's compile.
        least_s += leader.compile_s + self.rivals_s(fastest) - OVERTIME * limit_s
        end_s = limit_s - max(self.reserve_s(baseline, fastest), least_s)
        rest_s = max(0.0, limit_s - self.earlier_s)
        search_s = max(0.0, end_s - self.earlier_s)
        rivals_s = self.rivals_s(fastest)
        text = f"plan: search {duration(search_s)}, confirm {duration(max(0.0, rest_s - search_s - rivals_s))}"
        text += f", other engines {duration(rivals_s)}" if rivals_s else ""
        if self.earlier_limit_s >= limit_s:
            return end_s, text
        # A longer limit leaves more to the confirmation, and must not cut off what an earlier start has found.
        earlier = replace(self, time_limit=replace(self.time_limit, limit_s=self.earlier_limit_s))
        return max(end_s, min(earlier.search_end(baseline, fastest, leader)[0], self.earlier_s)), text

    @property
    def earlier_text(self) -> str:
        """What earlier starts of the run took of the time limit, in words; empty for the first start."""
        if not self.earlier_s:
            return ""
        return f"earlier starts took {duration(self.earlier_s)} of the time limit of {self.time_limit.limit_s:g} s"

    def reserve_s(self, baseline: Scored, fastest: Scored) -> float:
        """Return the seconds of the time limit that the search leaves to the shortlist and all that follows.

        Args:
            baseline: The baseline.
            fastest: The baseline again, or a candidate that is more than twice as fast.
        """
        limit_s, plans = self.time_limit.limit_s, self.plans
        repetition_s = self.repetition_s(baseline, fastest)
        once_s = self.once_s()
        confirm_s = self.options.repetitions * repetition_s + once_s
        shortlist_s = plans.processes * (SHORTLIST_PROCESS_S + SHORTLISTED * _load_s(fastest))
        usual_s = min(plans.confirm_s, plans.confirm_share * limit_s) if self.options.repetitions else 0.0
        if fastest is not baseline:
            # A large gain is certain after the fewest repetitions, a small one takes all the time there is. Two say
            # that it is faster, but nothing about its compile time, so two are planned only where the time is short.
            fewest = min(self.options.repetitions, LEAST_REPETITIONS)
            repetitions = self.options.repetitions if shortlist_s + confirm_s <= usual_s else fewest
            further_s = max(0, plans.compile_pairs - repetitions) * self.compiles_s(baseline, fastest)
            is_of_compiles = self.options.objectives[0].is_of_compiles  # its repetitions are compiles
            has_further = repetitions and not is_of_compiles and further_s <= FURTHER_SHARE * limit_s
            confirm_s, usual_s = repetitions * repetition_s + once_s + (further_s if has_further else 0.0), 0.0
        return min(max(usual_s, shortlist_s + confirm_s), MOST_RESERVE * limit_s) + self.rivals_s(fastest)

    def rivals_s(self, winner: Scored) -> float:
        """Return the seconds that are kept for measuring a winner beside other engines."""
        latency_s = min(winner.latency_s, default=0.0)
        return 0.0 if self.beside is None else planned_s(self.beside, latency_s, limit_s=self.time_limit.limit_s)

    def repetition_s(self, baseline: Scored, best: Scored) -> float:
        """Return about how long one repetition of the confirmation takes."""
        compile_s = self.compiles_s(baseline, best)
        plans, latency_s = self.plans, min(baseline.latency_s, default=0.0)
        race_s = plans.final_rounds.race_s
        far_faster = None if best is baseline else latency_s / min(best.latency_s, default=math.inf)
        objective = self.options.objectives[0]
        processes = slow_baseline_processes(objective, far_faster, latency_s=latency_s, plans=plans)
        start_s = self.start_s + (TIMED_BESIDE - (processes > 0)) * _load_s(best)
        if not processes:
            # Baseline and twin run twice in each process, or once where that takes as long as a race may.
            process_s = start_s + 2 * latency_s * (1 if 2 * latency_s >= race_s else 2)
            timing_s = max(compile_s, plans.least_timing_s, plans.least_processes * process_s)
        else:
            # A race begins its last round before its time is up; the others have processes of their own.
            process_s = start_s + latency_s + (race_s if latency_s < race_s else 0.0)
            others_s = max(compile_s, plans.least_timing_s, plans.least_processes * (start_s + race_s))
            timing_s = processes * process_s + others_s
        return compile_s + timing_s + self.windows_s()

    def least_confirm_s(self, baseline: Scored, best: Scored) -> float:
        """Return about how long two repetitions take whose processes are as few and as short as they may be."""
        once_s = 2 * sum(min(each.latency_s, default=0.0) for each in (baseline, best))
        timing_s = self.start_s + max(2 * LEAST_RACE_S, once_s)
        repetition_s = self.compiles_s(baseline, best) + timing_s + self.windows_s()
        return LEAST_REPETITIONS * repetition_s + self.once_s()

    def shortlist_processes(self, baseline: Scored, best: Sequence[Scored]) -> int | None:
        """Return how many processes of a shortlist the time allows beside a confirmation; ``None`` for all.

        Args:
            baseline: The baseline.
            best: The best candidate, if there is one.
        """
        if math.isinf(self.time_limit.limit_s) or not best:
            return None
        left_s = self.time_limit.left_s() - self.rivals_s(best[0])
        process_s = max(SHORTLIST_PROCESS_S, self.start_s + self.plans.shortlist_rounds.race_s)
        confirm_s = self.least_confirm_s(baseline, best[0]) if self.options.repetitions else 0.0
        return max(0, int((left_s - confirm_s) / (process_s + SHORTLISTED * _load_s(best[0]))))

    def windows_s(self) -> float:
        """Return about how long the windows of one repetition take, if power or energy is an objective."""
        return _windows_s(self.plans.final_windows) if self._is_consumption else 0.0

    def once_s(self) -> float:
        """Return about how long the windows of the first repetition take, if no objective has them in all."""
        is_read = self.has_meter and self.options.repetitions and not self._is_consumption
        return _windows_s(self.plans.search_windows) if is_read else 0.0

    @property
    def _is_consumption(self) -> bool:
        return any(isinstance(objective, MeteredObjective) for objective in self.options.objectives)

    def compiles_s(self, baseline: Scored, best: Scored) -> float:
        """Return about how long the compiles of one repetition take."""
        return baseline.compile_s + best.compile_s + 2 * self.start_s

    def estimate(self, baseline: Scored) -> str:
        """Return how long a run without a time limit will take, in words; called when the baseline is measured.

        It assumes that each candidate takes as long as the run has taken until then.
        """
        repetition_s = self.repetition_s(baseline, baseline)
        fewest = self.options.repetitions
        most = max(fewest, self.plans.most_repetitions) if fewest else 0
        confirm = f"{duration(fewest * repetition_s)} to {duration(most * repetition_s)}"
        search_s = self.options.trials * self.time_limit.clock_s()
        rivals_s = self.rivals_s(baseline)
        rivals = f", other engines {duration(rivals_s)}" if rivals_s else ""
        return f"no time limit: search up to {duration(search_s)}, confirm {confirm}{rivals}"


def _load_s(scored: Scored) -> float:
    return scored.built.bytes / LOAD_BYTES_PER_S


def _windows_s(plan: WindowPlan) -> float:
    # Baseline, candidate and twin; settling takes up to half as long again.
    return 3 * plan.windows * (plan.window_s + 1.25 * plan.settle_s)


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
