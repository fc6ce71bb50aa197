"""Measures how long the strategy ``graph`` thinks about a proposal: ``python benchmarks/sampler_time.py``.

States are made up: counts of 40 operators each, and a value that depends on them. After so many trials that a row says,
the sampler proposes, is told the value, and proposes again. ``benchmarks/results/sampler_time.json`` gets the median
seconds of a proposal, as do standard output and ``docs/evidence/reliability.md``.
"""

import json
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from passsearch.measure import probe
from passsearch.search.graph_space import LEVEL, STATE
from passsearch.search.samplers.graph import Choice, GraphSampler

RESULTS = Path(__file__).parent / "results" / "sampler_time.json"
OPERATORS, LEVELS, PROPOSALS = 40, (0, 3), 5
SIZES = ((400, 100), (2_000, 1_000), (10_000, 5_000))
"""Number of states, and of trials that are known."""


def main() -> None:
    """Measure all sizes, write the JSON and print the table."""
    rows = [{"states": states, "trials": trials, "proposal_s": proposal_s(states, trials)} for states, trials in SIZES]
    document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print("| states | trials | seconds a proposal |", "| ---: | ---: | ---: |", sep="\n")
    for row in rows:
        print(f"| {row['states']} | {row['trials']} | {row['proposal_s']:.2f} |")


def proposal_s(states: int, trials: int) -> float:
    """Return the median seconds of a proposal after a number of trials."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 30, (states, OPERATORS))
    space: dict[str, BaseDistribution] = {
        STATE: IntDistribution(0, states - 1),
        LEVEL: CategoricalDistribution(LEVELS),
    }
    sampler = GraphSampler(lambda: space, _names(counts), seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    values = counts @ np.linspace(-1, 1, OPERATORS) / 100
    choices = sampler.choices()
    for place in rng.permutation(len(choices))[:trials]:
        study.add_trial(_trial(choices[place], space, value=float(values[choices[place][0]])))
    seconds = []
    for _ in range(PROPOSALS):
        begin = time.perf_counter()
        trial = study.ask(space)
        seconds.append(time.perf_counter() - begin)
        study.tell(trial, float(values[trial.params[STATE]]))
    return median(seconds)


def _names(counts: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> Callable[[int], Mapping[str, int]]:
    return lambda state: {f"operator {place}": int(count) for place, count in enumerate(counts[state]) if count}


def _trial(choice: Choice, space: dict[str, BaseDistribution], *, value: float) -> optuna.trial.FrozenTrial:
    state, level = choice
    return optuna.trial.create_trial(params={STATE: state, LEVEL: level}, distributions=space, value=value)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    main()
