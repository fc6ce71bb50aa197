"""Strategies compared on spaces that are measured already, without a compiler: ``python benchmarks/replay.py``.

Every strategy searches every space of ``benchmarks/spaces`` with 200 seeds. It is charged for each different binary it
asks for, builds that fail included, as a real search is; a binary it knows costs nothing, and neither does a
sequence with a pass that fails: the closed graph has told so. What is noted after each of these measurements is the
regret: how far the best so far stays behind the best there is, as a share of it. Random search without repetition
needs no seeds: its expected regret is exact. A search starts ``blind``, with nothing known; or
``plain``, with -O3 measured; or from the ``catalog``, with -O0, -O3 and the named sequences first, the shortest before
all others (``tune`` puts the baseline's own passes before these).

``--table`` prints the Markdown of ``docs/search.md`` from the committed JSON, ``--draw FILE`` draws it.
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

from passsearch.catalog import Catalog, Parameter, load, with_needs
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate.closure import Closure
from passsearch.search import BUILDS, Space
from passsearch.search.graph_space import GraphSpace
from passsearch.search.samplers import REJECTED, STRATEGIES, keeping, strategy

RESULTS = Path(__file__).parent / "results" / "replay.json"
OBJECTIVES = ("throughput", "compile_time")
TRIALS = 80
"""Of one search; what proposes known binaries again and again comes to fewer measurements."""
STARTS = {"blind": ("states", "graph"), "plain": tuple(STRATEGIES), "catalog": ("states", "graph")}
"""From where which strategies start."""


@dataclass(frozen=True)
class Measured:
    """One space with a value for every state and level.

    Attributes:
        name: Of the file.
        closure: The graph.
        values: By state and level the log of how many times better than -O3, ``REJECTED`` where it fails.
        attributes: What a sampler is told beside them.
        binaries: By state and level what is measured together.
        census: By state what it consists of.
    """

    name: str
    closure: Closure
    values: Mapping[tuple[int, int], float]
    attributes: Mapping[tuple[int, int], Mapping[str, float]]
    binaries: Mapping[tuple[int, int], str]
    census: Sequence[Mapping[str, int]]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Of the states."""
        return {state: number for number, state in enumerate(self.closure.states)}

    @property
    def best(self) -> float:
        """The value of the best there is."""
        return max(self.values.values())

    @property
    def singles(self) -> list[float]:
        """The value of every different binary."""
        return [
            max(self.values[key] for key in self.values if self.binaries[key] == one)
            for one in sorted(set(self.binaries.values()))
        ]


@cache
def measured(file: Path, objective: str) -> Measured:
    """Read a space for one objective."""
    document = read_space(file)
    baseline = document["builds"][0]
    values, attributes, binaries = {}, {}, {}
    for row in document["builds"]:
        key = (row["state"], row["opt_level"])
        if "failure" in row:
            values[key], attributes[key], binaries[key] = REJECTED, {}, f"failed {key}"
            continue
        # By its binary a compile time is not known, so there every state is a measurement of its own.
        binaries[key] = row["kernels"] if objective == "throughput" else str(key)
        if objective == "throughput":
            values[key], attributes[key] = math.log(row["ratio"]), {}
        else:
            gain = math.log(baseline["compile_seconds"] / row["compile_seconds"])
            values[key], attributes[key] = keeping(gain, ratio=row["ratio"], least=KEEP)
    closure = Closure.from_json(document["graph"])
    return Measured(file.name.removesuffix(".json.gz"), closure, values, attributes, binaries, document["census"])


class Replay:
    """One search on a measured space, charged for every binary it had not seen.

    Attributes:
        regrets: After every measurement.
    """

    def __init__(self, file: Path, objective: str, *, start: str) -> None:
        self.space = measured(file, objective)
        self.graph = self.space.closure.graph
        self.regrets: list[float] = []
        self._best = -math.inf
        self._seen = set() if start == "blind" else {self.space.binaries[0, 3]}

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Where a pipeline leads; a pass that is not of this space is a mistake of this script."""
        state = self.graph.root
        for step in pipeline.passes:
            edge = self.graph.edge(state, step)
            assert edge is not None, f"`{step}` is not in this space"
            if isinstance(edge.target, Failure):
                return edge.target
            state = edge.target
        return state

    def census(self, state: str) -> Mapping[str, int]:
        """What a state consists of."""
        return self.space.census[self.space.numbers[state]]

    @property
    def regret(self) -> float:
        """How far the best that is known stays behind the best there is."""
        return 1 - math.exp(self._best - self.space.best)

    def told(self, candidate: Candidate) -> tuple[float, Mapping[str, float]]:
        """What a search is told: value and attributes; a binary it had not seen is a measurement."""
        state = self.reach(candidate.pipeline)
        if isinstance(state, Failure):
            return REJECTED, {}
        key = (self.space.numbers[state], candidate.build.opt_level)
        self._best = max(self._best, self.space.values[key])
        if self.space.binaries[key] not in self._seen:
            self._seen.add(self.space.binaries[key])
            self.regrets.append(self.regret)
        return self.space.values[key], self.space.attributes[key]


def replay(file: Path, objective: str, *, name: str, start: str, seed: int, most: int) -> list[float]:
    """One search; the regret after each of its measurements."""
    search = Replay(file, objective, start=start)
    catalog = _catalog(file)
    entries = {step.name: catalog.entry(step.name) for step in search.space.closure.passes}
    keyed = Space(catalog, tuple(entries.values()), frozenset())
    chosen = strategy(name, keyed, graph=GraphSpace(search.graph, search.reach, census=search.census), seed=seed)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=chosen.sampler)
    for candidate in _first(catalog, search.space.closure, start=start):
        (value, attributes), keys = search.told(candidate), chosen.space.encode(candidate)
        if keys is not None:
            study.add_trial(
                optuna.trial.create_trial(
                    params=dict(keys),
                    distributions=chosen.space.distributions(),
                    values=[value],
                    user_attrs=dict(attributes),
                )
            )
    for _ in range(TRIALS):
        if len(search.regrets) >= most:
            break
        trial = study.ask(chosen.space.distributions())
        value, attributes = search.told(chosen.space.decode(trial.params))
        for attribute, each in attributes.items():
            trial.set_user_attr(attribute, each)
        study.tell(trial, value)
    return (search.regrets + [search.regret] * most)[:most]


@cache
def _catalog(file: Path) -> Catalog:
    """The catalog with the choices of arguments this space was explored with, so that keys and needs lead into it."""
    catalog = load("relay")
    as_explored = dict(catalog.entries)
    steps = measured(file, OBJECTIVES[0]).closure.passes
    assert len({step.name for step in steps}) == len(steps), "a pass with several choices of arguments"
    for step in steps:
        bound = [Parameter(name, "str", required=True, alternatives=(value,)) for name, value in step.bound.items()]
        as_explored[step.name] = replace(catalog.entry(step.name), parameters=tuple(bound))
    return replace(catalog, entries=as_explored)


def _first(catalog: Catalog, closure: Closure, *, start: str) -> list[Candidate]:
    """What is measured before the sampler starts; the catalog's sequences of this space's passes, shortest first."""
    if start == "blind":
        return []
    levels = [Candidate(Pipeline(), build) for build in reversed(BUILDS)]
    if start != "catalog":
        return levels[:1]
    steps = set(closure.steps)
    named = [with_needs(each.pipeline, catalog, present=frozenset()) for each in catalog.sequences.values()]
    inside = [each for each in named if {str(step) for step in each.passes} <= steps]
    return [*levels, *(Candidate(each) for each in sorted(inside, key=len))]


def random_regret(space: Measured, most: int, *, blind: bool) -> list[float]:
    """The exact expectation of drawing different binaries at random, none twice; beside -O3 unless blind."""
    values = sorted(space.singles, reverse=True)
    first = space.binaries[0, 3]
    own = -math.inf if blind else max(space.values[key] for key in space.values if space.binaries[key] == first)
    if not blind:
        values.remove(own)
    regrets = [1 - math.exp(max(value, own) - space.best) for value in values]
    total = len(values)
    expected = []
    for drawn in range(1, most + 1):
        drawn = min(drawn, total)
        # The best drawn has rank k where k is drawn and none above it: C(total-1-k, drawn-1) / C(total, drawn).
        weights = [math.comb(total - 1 - rank, drawn - 1) / math.comb(total, drawn) for rank in range(total)]
        expected.append(sum(weight * regret for weight, regret in zip(weights, regrets, strict=True)))
    return expected


def summary(file: Path, objective: str, *, seeds: int, most: int) -> dict[str, Any]:
    """All strategies on one space and one objective."""
    space = measured(file, objective)
    rows = {}
    with ProcessPoolExecutor() as pool:
        for start, names in STARTS.items():
            for name in names:
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
    within = sum(1 - math.exp(value - space.best) <= 0.01 for value in space.singles)
    return {
        "space": space.name,
        "objective": objective,
        "states": len(space.closure.states),
        "candidates": len(space.values),
        "binaries": len(space.singles),
        "within_1_percent": within,
        "o3_regret": 1 - math.exp(space.values[0, 3] - space.best),
        "seeds": seeds,
        "random": {
            "blind": [round(value, 5) for value in random_regret(space, most, blind=True)],
            "plain": [round(value, 5) for value in random_regret(space, most, blind=False)],
        },
        "strategies": rows,
    }


def _run(seed: int, **what: Any) -> list[float]:
    return replay(seed=seed, **what)


def described(curves: np.ndarray) -> dict[str, Any]:
    """Mean regret with its interval at 95 % (bootstrap), the median, and the median count that comes within 1 %."""
    intervals = [_mean_interval(column) for column in curves.T]
    reached = [next((place + 1 for place, value in enumerate(curve) if value <= 0.01), math.inf) for curve in curves]
    middle = float(np.median(reached))
    return {
        "mean": [round(float(value), 5) for value in curves.mean(axis=0)],
        "interval": intervals,
        "median": [round(float(value), 5) for value in np.median(curves, axis=0)],
        "measurements_to_1_percent": middle if math.isfinite(middle) else None,
    }


def _mean_interval(values: np.ndarray) -> list[float]:
    if np.ptp(values) == 0:
        return [round(float(values[0]), 5)] * 2
    found = bootstrap((values,), np.mean, n_resamples=2000, method="percentile", random_state=0).confidence_interval
    return [round(float(found.low), 5), round(float(found.high), 5)]


SHOWN = ("tpe, plain", "nsga2, plain", "genetic, plain", "local, plain", "graph, plain", "graph, catalog")


def table(documents: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown of ``docs/search.md``: mean regret after a tenth of the states, or five where that is more."""
    heads = ["space", "objective", "to measure", "-O3's regret", "after", "random, exact", *SHOWN, "to 1 %"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in documents:
        budget = max(5, each["states"] // 10)
        cells = [
            each["space"],
            each["objective"].replace("_", " "),
            each["binaries"],
            f"{each['o3_regret']:.1%}",
            budget,
        ]
        cells.append(f"{each['random']['plain'][budget - 1]:.1%}")
        for name in SHOWN:
            row = each["strategies"][name]
            low, high = row["interval"][budget - 1]
            cells.append(f"{row['mean'][budget - 1]:.1%} [{100 * low:.1f}, {100 * high:.1f}]")
        count = each["strategies"][SHOWN[-1]]["measurements_to_1_percent"]
        lines.append("| " + " | ".join(map(str, [*cells, "–" if count is None else f"{count:.0f}"])) + " |")
    return "\n".join(lines)


def draw(documents: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Mean regret over measurements, a panel for every space and objective."""
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
    """Replay, or show the committed result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--most", type=int, default=20, help="measurements of a search")
    parser.add_argument("--spaces", nargs="+", help="names; all by default")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=OBJECTIVES)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--draw", type=Path)
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(RESULTS.read_text())["replays"]))
    elif arguments.draw:
        draw(json.loads(RESULTS.read_text())["replays"], arguments.draw)
    else:
        files = sorted(SPACES.glob("*.json.gz"))
        chosen = [
            file for file in files if not arguments.spaces or file.name.removesuffix(".json.gz") in arguments.spaces
        ]
        known = json.loads(RESULTS.read_text())["replays"] if RESULTS.exists() else []
        for file in chosen:
            for objective in arguments.objectives:
                row = summary(file, objective, seeds=arguments.seeds, most=arguments.most)
                others = [each for each in known if (each["space"], each["objective"]) != (row["space"], objective)]
                known = sorted([*others, row], key=lambda each: (each["space"], each["objective"]))
                RESULTS.write_text(json.dumps({"keep_throughput": KEEP, "replays": known}) + "\n")


if __name__ == "__main__":
    main()
