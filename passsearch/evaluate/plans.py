"""The measurement plans: how long and how often artifacts run, for searches and for decisions."""

import math
from dataclasses import dataclass, field, replace

from passsearch.measure import PlacePlan, RoundPlan, VariantPlan, WindowPlan, race_critical_values

# Processes differ more than rounds do, so a slow network gets fewer rounds in each process and not fewer processes.
FINAL_ROUNDS = RoundPlan(visit_s=1.0, race_s=6.0)
# What a search finds is decided later, by other samples, so a few seconds for a candidate suffice. A search times two
# artifacts at once, a reference and a candidate.
SEARCH_ROUNDS = replace(FINAL_ROUNDS, rounds=8, visit_s=0.5, race_s=5.0, critical=race_critical_values(8, artifacts=2))
# A shortlist times the reference and up to five candidates.
SHORTLIST_ROUNDS = replace(FINAL_ROUNDS, critical=race_critical_values(FINAL_ROUNDS.rounds, artifacts=6))


@dataclass(frozen=True)
class MeasurementPlans:
    """The plans of one session. Results are comparable only where these are equal.

    Attributes:
        search_rounds: Rounds for one candidate of a search. An artifact that is certainly slower leaves early.
        shortlist_rounds: Rounds for the shortlist. An artifact that is certainly slower leaves early.
        final_rounds: Rounds for the confirmation: every artifact stays to the end.
        search_windows: Windows of power and energy for one candidate of a search.
        final_windows: Windows of power and energy for decisions.
        variants: Plan by which the variants of one kernel are timed alone.
        kernel_windows: Plan by which each kernel of an artifact runs alone while its energy is read.
        places: Plan by which all kernels of several artifacts are timed in their places.
        kernel_limit: Largest deviation of a kernel's outputs between two of its variants, as a share of the largest.
        processes: Timing processes of a shortlist.
        comparison_processes: Timing processes of a comparison, unless the user sets another number.
        least_processes: Smallest number of timing processes of one repetition that confirms a winner, if the time
            suffices.
        most_processes: Largest number.
        least_timing_s: Time that the timing processes of one repetition may take, in seconds; as long as its compiles
            if these take longer.
        most_repetitions: Largest number of repetitions that confirm a winner, however large the noise floor still is.
        least_floor: Noise floor, as a share, below which a confirmation that sees no gain ends. Until then it adds
            repetitions, and so processes.
        compile_pairs: Number of pairs of compiles of a confirmation, if time is left for them. Two say next to nothing
            about compile time: Student's t of two pairs is 12.7 standard errors wide, that of four 3.2.
        confirm_share: Share of a time limit that the search leaves to the shortlist and the confirmation.
        confirm_s: Longest time that the search leaves to them, in seconds.
        explore_s: Longest time to close the space before the sampler starts, in seconds.
        explore_share: Largest share of a time limit that closing the space may take.
        no_op_states: Number of states a pass may leave unchanged before its other edges wait for those of active
            passes. An exploration that has to end early has then come further under the active passes.
    """

    search_rounds: RoundPlan = SEARCH_ROUNDS
    shortlist_rounds: RoundPlan = SHORTLIST_ROUNDS
    final_rounds: RoundPlan = FINAL_ROUNDS
    search_windows: WindowPlan = field(default_factory=lambda: WindowPlan(windows=1))
    final_windows: WindowPlan = field(default_factory=WindowPlan)
    kernel_windows: WindowPlan = field(default_factory=lambda: WindowPlan(windows=1, window_s=2.0, settle_s=0.5))
    variants: VariantPlan = field(default_factory=VariantPlan)
    places: PlacePlan = field(default_factory=PlacePlan)
    kernel_limit: float = 1e-4
    processes: int = 3
    comparison_processes: int = 9
    least_processes: int = 2
    most_processes: int = 9
    least_timing_s: float = 20.0
    most_repetitions: int = 9
    compile_pairs: int = 4
    least_floor: float = 0.01
    confirm_share: float = 0.4
    confirm_s: float = 600.0
    explore_s: float = 300.0
    explore_share: float = 0.05
    # 21 to 24 of the 35 choices of passes change nothing on any state of a network (docs/evidence/search.md).
    no_op_states: int = 20

    def number_of_processes(
        self, compile_s: float, process_s: float, *, left_s: float = math.inf, most: int | None = None
    ) -> int:
        """Return how many timing processes one repetition of a confirmation has.

        Args:
            compile_s: Time that the compiles of the repetition took.
            process_s: Time that one timing process takes.
            left_s: Time that is left for the timing of the repetition. If it does not suffice for the smallest number,
                there is one.
            most: Largest number; ``most_processes`` by default.
        """
        # The number follows from how long they take and never from what they measure.
        number = int(min(max(compile_s, self.least_timing_s), max(left_s, 0.0)) / process_s)
        least = self.least_processes if left_s >= self.least_processes * process_s else 1
        return min(most or self.most_processes, max(least, number))
