"""Strategies compared on measured spaces, without a compiler: ``python benchmarks/compare_strategies.py``.

Every strategy searches every space of ``benchmarks/spaces`` with 200 seeds, by the search that ``tune`` runs. It is
charged for each different binary it measures, failed builds included, as a real search is; a known binary is free, and
so is a sequence with a pass that fails, because the closed graph shows it. After each of these measurements the regret
is noted: the share by which the best candidate so far stays behind the best there is. All strategies start alike:
``plain``, with -O3 measured; or from the ``catalog``, with -O3, the named sequences and -O0 first, as ``tune`` does.
Random order without repetition, over the same binaries and from the same starts, needs no seeds: its expected regret is
exact.

``--table`` prints the Markdown of ``docs/evidence/search.md`` from the committed JSON, ``--draw FILE`` draws it.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from measured import KEEP, SPACES, read_space
from scipy.stats import bootstrap

from passsearch.catalog import Catalog, Parameter, load
from passsearch.core import Candidate, Failure, Objective
from passsearch.evaluate import Closure
from passsearch.evaluate.testing import RecordedBuild, RecordedEvaluator
from passsearch.search import BUILDS, RunOptions, Search, Space, starting_sequences
from passsearch.search.samplers import REJECTED, STRATEGIES, values_under_constraint

RESULTS = Path(__file__).parent / "results" / "strategies.json"
OBJECTIVES = ("throughput", "compile_time")
STARTS = ("plain", "catalog")

LOWEST, O3 = (Candidate(build=build, name=f"O{build.opt_level}") for build in BUILDS)
NO_LIMIT = 10_000
"""Trials of one search; the number of measurements ends it before."""


@dataclass(frozen=True)
class Measured:
    """One space with a value for every state and level.

    Attributes:
        name: Name of the file.
        closure: The graph.
        values: Log of how many times better than -O3, ``REJECTED`` for a failure, by state and level.
        binaries: Name of what is measured together, by state and level.
        builds: The recorded builds by state and level.
        op_counts: Operator counts by state.
    """

    name: str
    closure: Closure
    values: Mapping[tuple[str, int], float]
    binaries: Mapping[tuple[str, int], str]
    builds: Mapping[tuple[str, int], RecordedBuild | Failure]
    op_counts: Mapping[str, Mapping[str, int]]

    @property
    def o3(self) -> tuple[str, int]:
        """-O3 on the network as it is."""
        return self.closure.states[0], O3.build.opt_level

    @cached_property
    def best(self) -> float:
        """The value of the best candidate there is."""
        return max(self.values.values())

    @property
    def names(self) -> frozenset[str]:
        """Names of the different binaries."""
        return frozenset(self.binaries.values())


@cache
def measured(file: Path, objective: str) -> Measured:
    """Read a space for one objective."""
    document = read_space(file)
    closure, baseline = Closure.from_json(document["graph"]), document["builds"][0]
    values, binaries, builds = {}, {}, {}
    for row in document["builds"]:
        key = (closure.states[row["state"]], row["opt_level"])
        if "failure" in row:
            values[key], binaries[key], builds[key] = REJECTED, f"failed {key}", Failure.from_json(row["failure"])
            continue
        # Equal kernels take equal time, but compile times of equal kernels differ: each is a measurement of its own.
        binaries[key] = row["kernels"] if objective == "throughput" else str(key)
        builds[key] = RecordedBuild(row["ratio"], row["compile_seconds"], row["binary"], row["kernels"])
        values[key] = math.log(row["ratio"])
        if objective == "compile_time":
            gain = math.log(baseline["compile_seconds"] / row["compile_seconds"])
            values[key], _ = values_under_constraint(gain, ratio=row["ratio"], least=KEEP)
    counts = dict(zip(closure.states, document["census"], strict=True))
    return Measured(file.name.removesuffix(".json.gz"), closure, values, binaries, builds, counts)


class Charges:
    """The measurements that one search is charged for.

    Attributes:
        regrets: Regret after every measurement.
        best: Value of the best candidate so far.
        known: Names of the binaries that were measured.
    """

    def __init__(self, space: Measured, evaluator: RecordedEvaluator) -> None:
        self._space, self._evaluator = space, evaluator
        self.best, self.known = -math.inf, {space.binaries[space.o3]}
        self._read = 0
        self.regrets: list[float] = []

    def update(self) -> None:
        """Charge for the builds that were measured since the last call."""
        keys = list(self._evaluator.measured)
        for key in keys[self._read :]:
            self.best = max(self.best, self._space.values[key])
            if self._space.binaries[key] not in self.known:
                self.known.add(self._space.binaries[key])
                self.regrets.append(self.regret)
        self._read = len(keys)

    @property
    def regret(self) -> float:
        """The share by which the best measured candidate stays behind the best there is."""
        return 1 - math.exp(self.best - self._space.best)


def search_once(file: Path, objective: str, *, name: str, start: str, seed: int, most: int) -> list[float]:
    """Run one search; return the regret after each of its measurements."""
    charges = search(file, objective, name=name, start=start, seed=seed, most=most)
    return (charges.regrets + [charges.regret] * most)[:most]


def search(
    file: Path, objective: str, *, name: str, start: str, seed: int, most: int, proposes: bool = True
) -> Charges:
    """Run one search; return what it is charged for.

    Args:
        file: File of the space.
        objective: Name of the objective.
        name: Name of the strategy.
        start: What is measured before the strategy proposes, one of ``STARTS``.
        seed: Seed of the strategy.
        most: Number of measurements after which the search ends.
        proposes: False to end it after the start.
    """
    space, catalog = measured(file, objective), _catalog(file)
    evaluator = RecordedEvaluator(space.closure, space.builds, space.op_counts)
    charges = Charges(space, evaluator)
    # Without passes only -O3 on the network as it is could be proposed, and that is measured.
    entries = {step.name: catalog.entry(step.name) for step in space.closure.passes} if proposes else {}
    options = RunOptions((Objective.parse(objective),), NO_LIMIT, seed=seed, keep_throughput=KEEP, sampler=name)
    study = Search(
        evaluator,
        Space(catalog, tuple(entries.values()), frozenset(), BUILDS if proposes else (O3.build,)),
        options=options,
        baselines=[O3, LOWEST] if start == "catalog" else [O3],
        default_baseline=O3.name,
        first=_sequences(catalog, space.closure) if start == "catalog" else [],
        elapsed_s=lambda: math.inf if len(charges.regrets) >= most else 0.0,
        limit_s=lambda *_: 1.0,
        progress=lambda *_: charges.update(),
    )
    study.run()
    return charges


@cache
def _catalog(file: Path) -> Catalog:
    """Return the catalog with the arguments this space was explored with, so that keys and needs stay inside it."""
    catalog = load("relay")
    as_explored = dict(catalog.entries)
    steps = measured(file, OBJECTIVES[0]).closure.passes
    assert len({step.name for step in steps}) == len(steps), "a pass with several choices of arguments"
    for step in steps:
        bound = [
            Parameter(name, "str", required=True, alternatives=(value,)) for name, value in step.argument_values.items()
        ]
        as_explored[step.name] = replace(catalog.entry(step.name), parameters=tuple(bound))
    return replace(catalog, entries=as_explored)


def _sequences(catalog: Catalog, closure: Closure) -> list[Candidate]:
    """Return the catalog's sequences that consist of this space's passes, in the order of ``tune``."""
    steps = set(closure.steps)
    sequences = starting_sequences(catalog, features=frozenset(), device_kind="cpu")
    inside = [each for each in sequences if {str(step) for step in each.pipeline.passes} <= steps]
    return [replace(each, build=LOWEST.build) for each in inside]


def random_regret(file: Path, objective: str, *, start: str, most: int) -> list[float]:
    """Return the exact expected regret of drawing the binaries that a start leaves unmeasured at random."""
    # With no passes to choose from, a search ends after its start.
    begun = search(file, objective, name="random", start=start, seed=0, most=most, proposes=False)
    space = measured(file, objective)
    best = {one: max(space.values[key] for key in space.values if space.binaries[key] == one) for one in space.names}
    values = sorted((best[one] for one in space.names - begun.known), reverse=True)
    regrets = [1 - math.exp(max(value, begun.best) - space.best) for value in values]
    total, expected = len(values), begun.regrets[:most]
    for drawn in range(1, most + 1 - len(expected)):
        drawn = min(drawn, total)
        # The best drawn has rank k where k is drawn and none above it: C(total-1-k, drawn-1) / C(total, drawn).
        weights = [math.comb(total - 1 - rank, drawn - 1) / math.comb(total, drawn) for rank in range(total)]
        expected.append(sum(weight * regret for weight, regret in zip(weights, regrets, strict=True)))
    return expected


def summary(file: Path, objective: str, *, seeds: int, most: int) -> dict[str, Any]:
    """Compare all strategies on one space and one objective."""
    space = measured(file, objective)
    rows = {}
    with ProcessPoolExecutor() as pool:
        for start in STARTS:
            for name in STRATEGIES:
                run = partial(_run, file=file, objective=objective, name=name, start=start, most=most)
                curves = np.array(list(pool.map(run, range(seeds), chunksize=10)))
                rows[f"{name}, {start}"] = described(curves)
                print(
                    space.name,
                    objective,
                    start,
                    name,
                    rows[f"{name}, {start}"]["mean"][:6],
                    file=sys.stderr,
                    flush=True,
                )
    return {
        "space": space.name,
        "objective": objective,
        "states": len(space.closure.states),
        "candidates": len(space.values),
        "binaries": len(space.names),
        "o3_regret": 1 - math.exp(space.values[space.o3] - space.best),
        "seeds": seeds,
        "random": {
            start: [round(value, 5) for value in random_regret(file, objective, start=start, most=most)]
            for start in STARTS
        },
        "strategies": rows,
    }


def _run(seed: int, **what: Any) -> list[float]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return search_once(seed=seed, **what)


def described(curves: np.ndarray) -> dict[str, Any]:
    """Return the mean regret with its interval at 95 % (bootstrap), the median, and the measurements to within 1 %."""
    intervals = [_mean_interval(column) for column in curves.T]
    reached = [next((place + 1 for place, value in enumerate(curve) if value <= 0.01), math.inf) for curve in curves]
    middle = float(np.median(reached))
    return {
        "mean": [round(float(value), 5) for value in curves.mean(axis=0)],
        "interval": intervals,
        # A strategy whose searches are all alike has one run, whatever the number of seeds.
        "different_runs": len(np.unique(curves, axis=0)),
        "median": [round(float(value), 5) for value in np.median(curves, axis=0)],
        "measurements_to_1_percent": middle if math.isfinite(middle) else None,
    }


def _mean_interval(values: np.ndarray) -> list[float]:
    if np.ptp(values) == 0:
        return [round(float(values[0]), 5)] * 2
    found = bootstrap((values,), np.mean, n_resamples=2000, method="percentile", random_state=0).confidence_interval
    return [round(float(found.low), 5), round(float(found.high), 5)]


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of ``docs/evidence/search.md``: mean regret after a tenth of the states, at least five."""
    lines = []
    for start in STARTS:
        names = [f"{name}, {start}" for name in STRATEGIES]
        heads = ["space", "objective", "to measure", "-O3's regret", "after", f"random order, {start}", *names]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for each in documents:
            budget = max(5, each["states"] // 10)
            cells = [
                each["space"],
                each["objective"].replace("_", " "),
                str(each["binaries"]),
                f"{each['o3_regret']:.1%}",
                str(budget),
                f"{each['random'][start][budget - 1]:.1%}",
                *(_regret(each["strategies"][name], budget) for name in names),
            ]
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _regret(row: Mapping[str, Any], budget: int) -> str:
    low, high = row["interval"][budget - 1]
    span = f"[{100 * low:.1f}, {100 * high:.1f}]" if low < high else "(all runs alike)"
    return f"{row['mean'][budget - 1]:.1%} {span}"


def draw(documents: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw the mean regret over measurements, one panel for every space and objective."""
    import matplotlib.pyplot as plt

    spaces = list(dict.fromkeys(each["space"] for each in documents))
    figure, panels = plt.subplots(len(spaces), len(OBJECTIVES), figsize=(10, 3.1 * len(spaces)), squeeze=False)
    for each in documents:
        axes = panels[spaces.index(each["space"])][OBJECTIVES.index(each["objective"])]
        count = range(1, len(each["random"]["plain"]) + 1)
        exact = [100 * value for value in each["random"]["plain"]]
        axes.plot(count, exact, color="black", linestyle="--", label="random, plain, exact")
        for number, (name, row) in enumerate(each["strategies"].items()):
            if not name.endswith("plain") and name != "graph, catalog":
                continue
            colour = f"C{number % 10}"
            axes.plot(count, [100 * value for value in row["mean"]], color=colour, label=name)
            low, high = zip(*row["interval"], strict=True)
            axes.fill_between(
                count, [100 * v for v in low], [100 * v for v in high], color=colour, alpha=0.2, linewidth=0
            )
        axes.set(
            title=f"{each['space']}, {each['objective'].replace('_', ' ')}",
            xlabel="measurements",
            ylabel="mean regret, %",
        )
        axes.grid(alpha=0.3)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Compare the strategies, or show the committed result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--most", type=int, default=20, help="measurements of a search")
    parser.add_argument("--spaces", nargs="+", help="names; all by default")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=OBJECTIVES)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draw", type=Path)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(RESULTS.read_text())["comparisons"]))
    elif arguments.draw:
        draw(json.loads(RESULTS.read_text())["comparisons"], arguments.draw)
    else:
        files = sorted(SPACES.glob("*.json.gz"))
        chosen = [
            file for file in files if not arguments.spaces or file.name.removesuffix(".json.gz") in arguments.spaces
        ]
        known = json.loads(RESULTS.read_text())["comparisons"] if RESULTS.exists() else []
        for file in chosen:
            for objective in arguments.objectives:
                row = summary(file, objective, seeds=arguments.seeds, most=arguments.most)
                others = [each for each in known if (each["space"], each["objective"]) != (row["space"], objective)]
                known = sorted([*others, row], key=lambda each: (each["space"], each["objective"]))
                RESULTS.write_text(json.dumps({"keep_throughput": KEEP, "comparisons": known}) + "\n")


if __name__ == "__main__":
    main()
