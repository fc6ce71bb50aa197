"""False wins and power of a whole search, on a machine whose every disturbance is known.

``python benchmarks/simulate_search.py --searches 500`` runs the real search (forty candidates, shortlist, confirmation
and verdict) on ``passsearch.evaluate.testing.SimulatedEvaluator``. In each search all candidates are the baseline's
equals, or one is faster by a given gain; the processes of a machine differ by one of three levels of noise. With
``--objective compile_time``, one compiles faster by that gain and compiles differ by one of three levels.
``benchmarks/results/simulation.json`` has the results, ``docs/evidence/simulation.svg`` draws those of throughput.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.catalog import load
from passsearch.core import BuildOptions, Candidate, Failure, Objective, PassSpec, Pipeline
from passsearch.evaluate.testing import Machine, Noise, SimulatedEvaluator
from passsearch.search import Pairing, RunOptions, Search, Space, confirm, shortlist

ROOT = Path(__file__).parent
CANDIDATES, REPETITIONS = 40, 3
SPEED, COMPILE = "throughput", "compile_time"
NOISES = {SPEED: (0.003, 0.006, 0.012), COMPILE: (0.01, 0.03, 0.06)}
"""Standard deviations by objective: of an artifact's speed from process to process, and of one compile's time. The
levels are those of ``interval_coverage.py``."""
GAINS = {SPEED: (0.0, 0.01, 0.02, 0.03, 0.05, 0.1), COMPILE: (0.0, 0.05, 0.1, 0.2, 0.5, 2.0)}
USUAL = {SPEED: 0.003, COMPILE: 0.03}
"""Noise of the other objective than the one of interest."""
KEEP_THROUGHPUT = 0.98
"""Least throughput of a winner, as ``tune`` has it by default."""
BASELINE = Candidate(build=BuildOptions(opt_level=3), name="O3")


def search_once(seed: int, *, gain: float, noise: float, objective: str = SPEED) -> bool:
    """Return whether one whole search ends in the verdict ``improved``: for the faster candidate, if there is one.

    Args:
        seed: Seed of the machine and of the search.
        gain: Gain of one of the candidates in the objective.
        noise: Standard deviation of the objective: of speed from process to process, or of compile times.
        objective: Objective of the search.
    """
    pipelines = [Pipeline((PassSpec.of(f"Pass{number}"),)) for number in range(CANDIDATES)]
    fastest = str(pipelines[seed % CANDIDATES])
    evaluator = simulated(seed, {fastest: 1 + gain}, noise=noise, objective=objective)
    search = Search(
        evaluator,
        Space(load("relay"), (), frozenset()),  # all candidates are named ones: the sampler proposes none
        options=RunOptions((Objective.parse(objective),), CANDIDATES, seed=seed),
        baselines=[BASELINE],
        default_baseline=BASELINE.name,
        first=[Candidate(pipeline) for pipeline in pipelines],
        elapsed_s=lambda: 0.0,
        progress=lambda *_: None,
    )
    search.run()
    evaluation = search.evaluation
    assert evaluation.scoring is not None and evaluation.reference is not None
    finalists = shortlist(evaluator, evaluation.scoring, evaluation.ranked(), reference=evaluation.reference)
    if not finalists:
        return False  # the baseline stays: no candidate kept enough throughput on the shortlist
    best = finalists[0]
    confirmation = confirm(
        evaluator,
        Pairing(BASELINE, best.candidate, evaluation.scoring.baseline.built, objective),
        repetitions=REPETITIONS,
        progress=lambda _: None,
        keep_throughput=KEEP_THROUGHPUT,
    )
    assert not isinstance(confirmation, Failure)
    won = confirmation.improves(objective, keep_throughput=KEEP_THROUGHPUT)
    return won and (gain == 0.0 or str(best.candidate.pipeline) == fastest)


def simulated(seed: int, gains: Mapping[str, float], *, noise: float, objective: str) -> SimulatedEvaluator:
    """Return candidates on a machine that is noisy in the objective; in the other one it has its usual noise."""
    if objective == SPEED:
        return SimulatedEvaluator(Machine(Noise(process=noise, compile=USUAL[COMPILE]), seed), gains)
    machine = Machine(Noise(process=USUAL[SPEED], compile=noise), seed)
    return SimulatedEvaluator(machine, {}, compile_gains=gains)


def rates(objective: str, gains: Sequence[float], searches: int) -> Iterator[dict[str, Any]]:
    """Yield the number of searches won for each true gain at each level of noise."""
    for noise in NOISES[objective]:
        for gain in gains:
            wins = sum(search_once(seed, gain=gain, noise=noise, objective=objective) for seed in range(searches))
            yield {"objective": objective, "noise": noise, "gain": gain, "searches": searches, "won": wins}
            print(f"{objective}, noise {noise:.1%}, true gain {gain:.0%}: won {wins} of {searches}", flush=True)


def table(document: Mapping[str, Any], objective: str) -> str:
    """Return the Markdown of ``docs/evidence/measurement.md``."""
    rows = [each for each in document["rates"] if each["objective"] == objective]
    won = {(each["noise"], each["gain"]): f"{each['won']} of {each['searches']}" for each in rows}
    noises, gains = ({key[place]: None for key in won} for place in (0, 1))
    lines = ["| true gain of the best candidate | " + " | ".join(f"noise {noise:.1%}" for noise in noises) + " |"]
    lines += ["|---" * (len(noises) + 1) + "|"]
    lines += [f"| {gain:.0%} | " + " | ".join(won[noise, gain] for noise in noises) + " |" for gain in gains]
    return "\n".join(lines)


def draw(document: Mapping[str, Any], file: Path) -> None:
    """Draw the share of searches won over the true gain, with exact intervals at 95 % (Clopper and Pearson)."""
    import matplotlib.pyplot as plt
    from scipy.stats import binomtest

    figure, axes = plt.subplots(figsize=(6, 3.2))
    for noise, color in zip(NOISES[SPEED], ("#1a7f5a", "#b8860b", "#a23b3b"), strict=True):
        rows = [each for each in document["rates"] if (each["objective"], each["noise"]) == (SPEED, noise)]
        tests = [binomtest(int(each["won"]), int(each["searches"])) for each in rows]
        shares = [100 * test.statistic for test in tests]
        spans = [test.proportion_ci() for test in tests]
        below = [share - 100 * span.low for share, span in zip(shares, spans, strict=True)]
        above = [100 * span.high - share for share, span in zip(shares, spans, strict=True)]
        gains = [100 * each["gain"] for each in rows]
        label = f"processes differ by {noise:.1%}"
        axes.errorbar(gains, shares, yerr=[below, above], marker="o", capsize=3, color=color, label=label)
    axes.legend(frameon=False, fontsize=8)
    axes.axvline(1, color="#7a8699", linestyle=":", linewidth=1)
    axes.set(xlabel="true gain of the best of 40 candidates, %", ylabel="searches won, %", ylim=(-3, 103))
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Simulate and write the JSON, or draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=500)
    parser.add_argument("--objective", choices=NOISES, default=SPEED)
    parser.add_argument("--draw", type=Path, help="draw the committed JSON to this file; needs matplotlib")
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    results = ROOT / "results" / "simulation.json"
    if arguments.table:
        print(table(json.loads(results.read_text()), arguments.objective))
        return
    if arguments.draw:
        draw(json.loads(results.read_text()), arguments.draw)
        return
    objective = arguments.objective
    others = [each for each in json.loads(results.read_text())["rates"] if each["objective"] != objective]
    found = list(rates(objective, GAINS[objective], arguments.searches))
    document = {"candidates": CANDIDATES, "repetitions": REPETITIONS, "rates": [*others, *found]}
    results.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
