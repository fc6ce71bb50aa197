"""The measurement plans: how long and how often artifacts run, for searches and for decisions."""

from dataclasses import dataclass, field, replace

from passsearch.measure import RoundPlan, WindowPlan, race_critical_values

FINAL_ROUNDS = RoundPlan()
# What a search finds is decided later, by other samples, so 10 s for a candidate suffice: without that limit a search
# of a slow network saw four sequences in as many minutes. A search times two artifacts at once, the baseline and a
# candidate.
SEARCH_ROUNDS = replace(FINAL_ROUNDS, rounds=8, race_s=10.0, critical=race_critical_values(8, artifacts=2))


@dataclass(frozen=True)
class MeasurementPlans:
    """The plans of one session. Results are comparable only where these are equal.

    Attributes:
        search_rounds: Rounds for one candidate of a search. A candidate that is certainly slower leaves early.
        final_rounds: Rounds for decisions: every artifact stays to the end.
        search_windows: Windows of power and energy for one candidate of a search.
        final_windows: Windows of power and energy for decisions.
        processes: Timing processes of a shortlist, and the fewest of each repetition that confirms a winner.
        most_processes: The most timing processes of one repetition.
        explore_s: Longest time to close the space before the sampler starts, in seconds.
        explore_share: Largest share of a time limit that closing the space may take.
        no_op_states: Number of states a pass may leave unchanged before its other edges wait for those of active
            passes. An exploration that has to end early has then come further under the active passes.
    """

    search_rounds: RoundPlan = SEARCH_ROUNDS
    final_rounds: RoundPlan = FINAL_ROUNDS
    search_windows: WindowPlan = field(default_factory=lambda: WindowPlan(windows=1))
    final_windows: WindowPlan = field(default_factory=WindowPlan)
    # The median over processes has no interval below six processes. Three in each of three repetitions are nine, and
    # with three artifacts every order of loading occurs once. Three a repetition left 12 % open on MobileNetV2: hence
    # nine.
    processes: int = 3
    most_processes: int = 9
    explore_s: float = 300.0
    explore_share: float = 0.2
    # 21 to 24 of the 35 choices of passes change nothing on any state of a network (docs/search.md).
    no_op_states: int = 20
