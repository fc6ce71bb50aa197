"""API calls with short measurements, for tests that ask whether a job is done and not how fast a network is."""

from dataclasses import replace
from functools import partial

import passsearch
from passsearch.evaluate import MeasurementPlans

_PLANS = MeasurementPlans()

# A process imports the compiler before it measures, which takes longer than the measurement itself.
SHORT = replace(
    _PLANS,
    search_rounds=replace(_PLANS.search_rounds, rounds=5, run_s=0.001),
    shortlist_rounds=replace(_PLANS.shortlist_rounds, rounds=5, run_s=0.001),
    final_rounds=replace(_PLANS.final_rounds, rounds=5, run_s=0.001),
    places=replace(_PLANS.places, processes=1, rounds=2),
    processes=1,
    comparison_processes=3,
    least_processes=1,
    most_processes=1,
    most_repetitions=1,
    compile_pairs=2,
    explore_s=100.0,
)

# Beside other engines, a network takes as long as the rest of a short search.
tune = partial(passsearch.tune, plans=SHORT, rivals=[])
compare = partial(passsearch.compare, plans=SHORT)
audit = partial(passsearch.audit, plans=SHORT)
