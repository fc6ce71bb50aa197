"""Strategies compared on measured spaces, without a compiler: ``python -m benchmarks.search.compare_strategies``.

Every strategy searches every space of ``spaces/`` with 200 seeds, by the search that ``tune`` runs. It is charged for
each different binary it measures, failed builds included, as a real search is; a known binary is free, and so is a
sequence with a pass that fails, because the closed graph shows it. After each of these measurements the regret is
noted: the share by which the best candidate so far stays behind the best there is. All strategies start alike:
``plain``, with -O3 measured; or from the ``catalog``, with -O3, the named sequences and -O0 first, as ``tune`` does.
Random order without repetition, over the same binaries and from the same starts, needs no seeds: its expected regret is
exact. ``--table`` prints Markdown from the committed JSON.
"""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
import optuna
from scipy.stats import bootstrap

from benchmarks.common import RESULTS, markdown, note, options, read, write
from passsearch.catalog import Catalog, Parameter, load
from passsearch.core import Candidate, Failure, TimeLimit
from passsearch.evaluate import Closure
from passsearch.evaluate.testing import RecordedBuild, RecordedEvaluator
from passsearch.objectives import parse_objective
from passsearch.search import BUILDS, RunOptions, Search, Space, starting_sequences
from passsearch.search.samplers import REJECTED, STRATEGIES, values_under_constraint

SPACES, FILE = Path(__file__).parent / "spaces", RESULTS / "strategies.json"
KEEP = 0.98
"""Share of -O3's throughput that a candidate must have to count as no slower than -O3."""
OBJECTIVES, STARTS = ("throughput", "compile_time"), ("plain", "catalog")
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
        return max(self.values.values())

    @property
    def names(self) -> frozenset[str]:
        """Names of the different binaries."""
        return frozenset(self.binaries.values())


def compile_seconds(row: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
    """Return the compile time of a build, comparable between builds.

    A candidate that was compiled several times has ``compile_s``. Each of these compiles is divided by -O3's compile of
    the same round, and the geometric mean of the ratios is multiplied by -O3's median. All others were built once, in a
    process that had compiled before and was therefore quicker. Their time is multiplied by the factor between -O3's
    median and its single build.
    """
    if "compile_s" in row:
        ratios = [one / other for one, other in zip(row["compile_s"], baseline["compile_s"], strict=True)]
        return float(median(baseline["compile_s"]) * geometric_mean(ratios))
    single_s, baseline_s = (each["apply_s"] + each["build_s"] for each in (row, baseline))
    return float(single_s * median(baseline.get("compile_s", [baseline_s])) / baseline_s)


@cache
def measured(file: Path, objective: str) -> Measured:
    """Read a space for one objective."""
    document = json.loads(gzip.decompress(file.read_bytes()))
    closure, baseline = Closure.from_json(document["graph"]), document["builds"][0]
    baseline_s, values, binaries, builds = compile_seconds(baseline, baseline), {}, {}, {}
    for row in document["builds"]:
        key = (closure.states[row["state"]], row["opt_level"])
        if "failure" in row:
            values[key], binaries[key], builds[key] = REJECTED, f"failed {key}", Failure.from_json(row["failure"])
            continue
        # Equal kernels take equal time, but compile times of equal kernels differ: each is a measurement of its own.
        binaries[key] = row["kernels"] if objective == "throughput" else str(key)
        seconds = compile_seconds(row, baseline)
        builds[key] = RecordedBuild(row["ratio"], seconds, row["binary"], row["kernels"])
        values[key] = math.log(row["ratio"])
        if objective == "compile_time":
            gain = math.log(baseline_s / seconds)
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


def search(
    file: Path, objective: str, *, name: str, start: str, seed: int, most: int, proposes: bool = True
) -> Charges:
    """Run one search, which ends after ``most`` measurements, or after its start; return what it is charged for."""
    space, catalog = measured(file, objective), _catalog(file)
    evaluator = RecordedEvaluator(space.closure, space.builds, space.op_counts)
    charges = Charges(space, evaluator)
    # Without passes only -O3 on the network as it is could be proposed, and that is measured.
    entries = {step.name: catalog.entry(step.name) for step in space.closure.passes} if proposes else {}
    settings = RunOptions((parse_objective(objective),), NO_LIMIT, seed=seed, keep_throughput=KEEP, sampler=name)
    study = Search(
        evaluator,
        Space(catalog, tuple(entries.values()), frozenset(), BUILDS if proposes else (O3.build,)),
        options=settings,
        baselines=[O3, LOWEST] if start == "catalog" else [O3],
        default_baseline=O3.name,
        first=_sequences(catalog, space.closure) if start == "catalog" else [],
        time_limit=TimeLimit(1.0, lambda: math.inf if len(charges.regrets) >= most else 0.0),
        end_s=lambda *_: 1.0,
        progress=lambda *_: charges.update(),
    )
    study.run()
    return charges


@cache
def _catalog(file: Path) -> Catalog:
    """Return the catalog with the arguments this space was explored with, so that keys and needs stay inside it."""
    catalog = load("relay")
    as_explored = dict(catalog.entries)
    for step in measured(file, OBJECTIVES[0]).closure.passes:
        values = step.argument_values.items()
        bound = [Parameter(name, "str", required=True, alternatives=(value,)) for name, value in values]
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
    for number in range(1, most + 1 - len(expected)):
        drawn = min(number, total)
        # The best drawn has rank k where k is drawn and none above it: C(total-1-k, drawn-1) / C(total, drawn).
        weights = [math.comb(total - 1 - rank, drawn - 1) / math.comb(total, drawn) for rank in range(total)]
        expected.append(sum(weight * regret for weight, regret in zip(weights, regrets, strict=True)))
    return [round(value, 5) for value in expected]


def summary(file: Path, objective: str, *, seeds: int, most: int) -> dict[str, Any]:
    """Compare all strategies on one space and one objective."""
    space, rows = measured(file, objective), {}
    with ProcessPoolExecutor() as pool:
        for start in STARTS:
            for name in STRATEGIES:
                run = partial(_regrets, file=file, objective=objective, name=name, start=start, most=most)
                curves = np.array(list(pool.map(run, range(seeds), chunksize=10)))
                rows[f"{name}, {start}"] = described(curves)
                note(f"{space.name} {objective} {start} {name} {rows[f'{name}, {start}']['mean'][:6]}")
    return {
        "space": space.name,
        "objective": objective,
        "states": len(space.closure.states),
        "candidates": len(space.values),
        "binaries": len(space.names),
        "o3_regret": 1 - math.exp(space.values[space.o3] - space.best),
        "seeds": seeds,
        "random": {start: random_regret(file, objective, start=start, most=most) for start in STARTS},
        "strategies": rows,
    }


def _regrets(seed: int, *, file: Path, objective: str, most: int, **what: str) -> list[float]:
    """Run one search; return the regret after each of its measurements."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    charges = search(file, objective, seed=seed, most=most, **what)
    return (charges.regrets + [charges.regret] * most)[:most]


def described(curves: np.ndarray) -> dict[str, Any]:
    """Return the mean regret with its interval at 95 % (bootstrap), the median, and the measurements to within 1 %."""
    reached = [next((place + 1 for place, value in enumerate(curve) if value <= 0.01), math.inf) for curve in curves]
    middle = float(np.median(reached))
    return {
        "mean": [round(float(value), 5) for value in curves.mean(axis=0)],
        "interval": [_mean_interval(column) for column in curves.T],
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
    """Return Markdown: mean regret after a tenth of the states, at least five."""
    parts = []
    for start in STARTS:
        names, lines = [f"{name}, {start}" for name in STRATEGIES], []
        for each in documents:
            budget = min(max(5, each["states"] // 10), len(each["random"][start]))
            cells = [each["space"], each["objective"].replace("_", " "), each["binaries"], f"{each['o3_regret']:.1%}"]
            cells += [budget, f"{each['random'][start][budget - 1]:.1%}"]
            lines.append([*cells, *(_regret(each["strategies"][name], budget) for name in names)])
        heads = ("space", "objective", "to measure", "-O3's regret", "after", f"random order, {start}", *names)
        parts.append(markdown(heads, lines))
    return "\n\n".join(parts)


def _regret(row: Mapping[str, Any], budget: int) -> str:
    low, high = row["interval"][budget - 1]
    span = f"[{100 * low:.1f}, {100 * high:.1f}]" if low < high else "(all runs alike)"
    return f"{row['mean'][budget - 1]:.1%} {span}"


def main() -> None:
    arguments = options(
        __doc__,
        ("spaces", tuple(sorted(file.name.removesuffix(".json.gz") for file in SPACES.glob("*.json.gz")))),
        seeds=200,
        most=(20, "measurements of a search"),
        out=FILE,
        table=False,
    )
    known = read(arguments.out).get("comparisons", [])
    for name in () if arguments.table else arguments.spaces:
        for objective in OBJECTIVES:
            row = summary(SPACES / f"{name}.json.gz", objective, seeds=arguments.seeds, most=arguments.most)
            others = [each for each in known if (each["space"], each["objective"]) != (name, objective)]
            known = sorted([*others, row], key=lambda each: (each["space"], each["objective"]))
            write(arguments.out, {"keep_throughput": KEEP, "comparisons": known})
    print(table(known))


if __name__ == "__main__":
    main()
