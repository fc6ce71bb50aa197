"""False wins and power of a whole search, on a machine whose every disturbance is known.

``python benchmarks/simulate_search.py --searches 1000`` runs the real search (forty candidates, shortlist, confirmation
and verdict) on a simulated machine: its clock advances by what every run takes, and runs are slowed by drift, by bursts
of other work, by spikes, and by where on the stack they begin. In each search all candidates are the
baseline's equals, or one is faster by a given gain. The sizes of the disturbances are those read on the machine of
``docs/results.md``, the stack's by ``benchmarks/stack_depth.py``; ``benchmarks/results/simulation.json`` has what came
out, ``docs/simulation.svg`` draws it.
"""

import argparse
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passsearch.core import BuildOptions, Candidate, Objective, PassSpec, Pipeline
from passsearch.dialects.contract import Array, Executable
from passsearch.evaluate import PROCESSES, SEARCH_PLAN, Built, StateGraph
from passsearch.evaluate.state_graph import Edge
from passsearch.measure import WindowPlan, improved
from passsearch.measure.processor import CpuTimes
from passsearch.measure.rounds import RoundPlan, run_race
from passsearch.search import Plan, Search, confirm, shortlist

ROOT = Path(__file__).parent
CANDIDATES, REPETITIONS = 40, 3
LATENCY_S = 0.07
BASELINE = Candidate(Pipeline(()), BuildOptions(opt_level=3), "O3")


@dataclass(frozen=True)
class Noise:
    """How a machine disturbs what runs on it; all sizes are shares of the undisturbed time.

    Attributes:
        run: Standard deviation of single runs.
        spikes: Share of runs that are hit by a spike.
        spike: Its mean size.
        drift: Amplitude of a slow wave of ``drift_s`` seconds.
        burst_every_s: Mean time between bursts of other work.
        burst_s: Mean length of one.
        burst: Its size.
        stack: Mean of what a place on the stack costs.
        process: Standard deviation of an artifact's speed from process to process.
    """

    run: float = 0.004
    spikes: float = 0.05
    spike: float = 0.12
    drift: float = 0.03
    drift_s: float = 120.0
    burst_every_s: float = 8.0
    burst_s: float = 1.5
    burst: float = 0.27
    stack: float = 0.08
    process: float = 0.003


class Machine:
    """A clock, and how slow the machine is at every time."""

    def __init__(self, noise: Noise, seed: int) -> None:
        self.noise = noise
        self.rng = random.Random(seed)
        self._now_s = 0.0
        self._phase = self.rng.random()
        self._burst_from_s = self.rng.expovariate(1 / noise.burst_every_s)
        self._burst_to_s = self._burst_from_s + self.rng.expovariate(1 / noise.burst_s)

    def now(self) -> float:
        """Seconds since the start."""
        return self._now_s

    def spend(self, seconds: float) -> float:
        """Run something that takes so long undisturbed; returns what it took."""
        noise = self.noise
        while self._now_s > self._burst_to_s:
            self._burst_from_s = self._burst_to_s + self.rng.expovariate(1 / noise.burst_every_s)
            self._burst_to_s = self._burst_from_s + self.rng.expovariate(1 / noise.burst_s)
        slow = 1 + noise.drift * math.sin(2 * math.pi * (self._now_s / noise.drift_s + self._phase))
        slow *= 1 + noise.burst * (self._now_s >= self._burst_from_s)
        slow *= 1 + noise.spike * self.rng.expovariate(1) * (self.rng.random() < noise.spikes)
        taken = seconds * slow * math.exp(self.rng.gauss(0, noise.run))
        self._now_s += taken
        return taken


class Placed(Executable):
    """An artifact loaded into one process of the machine."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        noise, rng = machine.noise, machine.rng
        self._machine, self._seconds = machine, seconds * math.exp(rng.gauss(0, noise.process))

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Nothing is computed."""
        return list(inputs.values())

    def spin(self, number: int) -> None:
        """So many inferences from a new place on the stack."""
        self._machine.spend(number * self._seconds * (1 + self._machine.rng.expovariate(1 / self._machine.noise.stack)))


class SimulatedEvaluator:
    """Candidates by number; each is a binary of its own with a known speed. Stands in for ``search.Evaluator``."""

    inputs: Mapping[str, Any] = {}
    batch = 1

    def __init__(self, machine: Machine, gains: Mapping[str, float]) -> None:
        self._machine, self._gains = machine, gains
        self.graph = StateGraph("root")

    def reach(self, pipeline: Pipeline) -> str:
        """Every pipeline leads to a state of its own."""
        if not pipeline.passes:
            return "root"
        if self.graph.edge("root", pipeline.passes[0]) is None:
            self.graph.add("root", pipeline.passes[0], edge=Edge(str(pipeline), 1.0))
        return str(pipeline)

    def built(self, state: str, candidate: Candidate) -> Built:
        """A name, no files."""
        return Built(state, candidate.build, state, Path(state), state, state, 20.0, 0, 0, 0)

    def samples(self, baseline: Built, candidate: Built) -> dict[str, Any]:
        """As the search does it: one process, racing."""
        return {"samples": self._time([baseline.digest, candidate.digest], SEARCH_PLAN), "conditions": {}}

    def time_fresh(self, _: str, folders: Sequence[str], *, plan: RoundPlan, **__: object) -> dict[str, Any]:
        """Several new processes."""
        quiet = {"steal_percent": 0.0, "foreign_percent": 0.0, "rounds_dropped": 0}
        processes = [self._time([Path(folder).name for folder in folders], plan) for _ in range(PROCESSES)]
        return {"processes": processes, "conditions": [quiet] * PROCESSES, "wall_s": 0.0}

    def consumption(self, _: str, __: Sequence[str], *, plan: WindowPlan) -> None:
        """The machine has no meter."""

    def fresh(self, _: str, candidate: Candidate, *, timed: str, kinds: Sequence[str]) -> dict[str, Any]:
        """A compile that gives the same binary again."""
        assert timed and kinds
        state = self.reach(candidate.pipeline)
        return {"folder": state, "digest": state, "apply_s": 1.0, "seconds": 20.0, "wall_s": 0.0}

    def census(self, _: str) -> dict[str, int]:
        """States are not told apart by what they consist of."""
        return {}

    def restore(self, built: Built) -> Built:
        """Nothing was lost."""
        return built

    def discard(self, built: Built) -> None:
        """Nothing to delete."""

    def _time(self, names: Sequence[str], plan: RoundPlan) -> list[Sequence[float]]:
        loaded = [Placed(self._machine, LATENCY_S / self._gains.get(name, 1.0)) for name in names]
        quiet = CpuTimes(0.0, 0.0, 0.0, 0.0)
        return run_race(loaded, plan, watch=lambda: quiet, now=self._machine.now).samples()


class NoSpace:
    """All candidates are given, none is drawn."""

    steps = ()
    builds = (BuildOptions(),)

    def encode(self, candidate: Candidate) -> None:
        """Not told to a sampler."""

    def distributions(self) -> dict[str, Any]:
        """Nothing to draw."""
        return {}


def search_once(seed: int, *, gain: float, noise: Noise = Noise()) -> bool:
    """Whether one whole search ends in the verdict ``improved``: for the faster candidate, if there is one."""
    pipelines = [Pipeline((PassSpec.of(f"Pass{number}"),)) for number in range(CANDIDATES)]
    fastest = str(pipelines[seed % CANDIDATES])
    evaluator: Any = SimulatedEvaluator(Machine(noise, seed), {fastest: 1 + gain})
    space: Any = NoSpace()
    search = Search(
        evaluator,
        space,
        plan=Plan((Objective.parse("throughput"),), CANDIDATES, None, seed, 0.98),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(pipeline, BuildOptions()) for pipeline in pipelines],
        elapsed_s=lambda: 0.0,
        progress=lambda *_: None,
    )
    search.run()
    best = shortlist(search)[0]
    assert search.baseline is not None
    twin = search.baseline.folder
    told = {"repetitions": REPETITIONS, "objective": "throughput", "progress": lambda _: None}
    confirmed: Any = confirm(evaluator, best.candidate, baseline=BASELINE, twin=twin, **told)
    won = improved(confirmed.throughput, floor=confirmed.noise_floor)
    return won and (gain == 0.0 or str(best.candidate.pipeline) == fastest)


def rates(gains: Sequence[float], searches: int) -> Iterator[dict[str, float]]:
    """Share of searches won, by true gain."""
    for gain in gains:
        wins = sum(search_once(seed, gain=gain) for seed in range(searches))
        yield {"gain": gain, "searches": searches, "won": wins}
        print(f"true gain {gain:.0%}: won {wins} of {searches}", flush=True)


def table(document: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/measurement.md``."""
    lines = ["| true gain of the best candidate | searches that found, confirmed and claimed it |", "|---|---|"]
    lines += [f"| {each['gain']:.0%} | {each['won']} of {each['searches']} |" for each in document["rates"]]
    return "\n".join(lines)


def draw(document: Mapping[str, Any], file: Path) -> None:
    """Share of searches won over the true gain, with exact intervals at 95 % (Clopper and Pearson)."""
    import matplotlib.pyplot as plt
    from scipy.stats import binomtest

    figure, axes = plt.subplots(figsize=(6, 3.2))
    gains = [100 * each["gain"] for each in document["rates"]]
    tests = [binomtest(int(each["won"]), int(each["searches"])) for each in document["rates"]]
    shares = [100 * test.statistic for test in tests]
    spans = [test.proportion_ci() for test in tests]
    below = [share - 100 * span.low for share, span in zip(shares, spans, strict=True)]
    above = [100 * span.high - share for share, span in zip(shares, spans, strict=True)]
    axes.errorbar(gains, shares, yerr=[below, above], marker="o", capsize=3, color="#1a7f5a")
    axes.axvline(1, color="#7a8699", linestyle=":", linewidth=1)
    axes.set(xlabel="true gain of the best of 40 candidates, %", ylabel="searches won, %", ylim=(-3, 103))
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Simulate and write the JSON, or draw it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--gains", type=float, nargs="+", default=[0.0, 0.01, 0.02, 0.03, 0.05, 0.1])
    parser.add_argument("--draw", type=Path, help="draw the committed JSON to this file; needs matplotlib")
    parser.add_argument("--table", action="store_true", help="print the Markdown from the committed JSON")
    arguments = parser.parse_args()
    results = ROOT / "results" / "simulation.json"
    if arguments.table:
        print(table(json.loads(results.read_text())))
        return
    if arguments.draw:
        draw(json.loads(results.read_text()), arguments.draw)
        return
    found = list(rates(arguments.gains, arguments.searches))
    document = {"candidates": CANDIDATES, "repetitions": REPETITIONS, "processes": PROCESSES, "rates": found}
    results.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
