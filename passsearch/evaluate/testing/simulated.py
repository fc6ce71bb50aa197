"""Candidates of known speed on a simulated machine, whose clock advances by what every run takes.

Runs are slowed by drift, by bursts of other work, by spikes, and by the place on the stack at which they begin. The
sizes of these disturbances were read on the machine of docs/evidence/results.md, the stack's on
that of docs/evidence/measurement.md.
"""

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from passsearch.core import Candidate, Failure, Pipeline
from passsearch.dialects.contract import Array, Executable
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.evaluate.records import Built, FreshCompile
from passsearch.evaluate.state_graph import Edge, StateGraph
from passsearch.evaluate.timed_records import CandidateSamples, Conditions, Samples, TimedSamples, TimingRequest
from passsearch.measure import CpuTimes, RoundPlan, WindowPlan, run_race

LATENCY_S = 0.07
APPLY_S, BUILD_S, START_S = 1.0, 20.0, 2.0
QUIET: Conditions = {"steal_percent": 0.0, "foreign_percent": 0.0, "rounds_dropped": 0}


@dataclass(frozen=True)
class Noise:
    """Disturbances of a machine; all sizes are shares of the undisturbed time.

    Attributes:
        run: Standard deviation of single runs.
        spikes: Share of runs that a spike hits.
        spike: Mean size of a spike.
        drift: Amplitude of a slow wave.
        drift_s: Period of that wave in seconds.
        burst_every_s: Mean time between bursts of other work.
        burst_s: Mean length of a burst.
        burst: Size of a burst.
        stack: Mean cost of a place on the stack.
        process: Standard deviation of an artifact's speed from process to process.
        compile: Standard deviation of the time of one compile.
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
    compile: float = 0.0


class Machine:
    """A clock, and the slowness of the machine at every time."""

    def __init__(self, noise: Noise, seed: int) -> None:
        self.noise = noise
        self.rng = random.Random(seed)  # noqa: S311
        # A generator of their own, so that the noise of compiles leaves the samples as they are.
        self._compile_rng = random.Random(f"{seed} compiles")  # noqa: S311
        self._now_s = 0.0
        self._phase = self.rng.random()
        self._burst_from_s = self.rng.expovariate(1 / noise.burst_every_s)
        self._burst_to_s = self._burst_from_s + self.rng.expovariate(1 / noise.burst_s)

    def now(self) -> float:
        """Return the time since the start in seconds."""
        return self._now_s

    def compile_s(self, seconds: float) -> float:
        """Return the time of a compile that takes ``seconds`` undisturbed."""
        return seconds * math.exp(self._compile_rng.gauss(0, self.noise.compile))

    def spend(self, seconds: float) -> None:
        """Advance the clock by a run that takes ``seconds`` undisturbed."""
        noise = self.noise
        while self._now_s > self._burst_to_s:
            self._burst_from_s = self._burst_to_s + self.rng.expovariate(1 / noise.burst_every_s)
            self._burst_to_s = self._burst_from_s + self.rng.expovariate(1 / noise.burst_s)
        slow = 1 + noise.drift * math.sin(2 * math.pi * (self._now_s / noise.drift_s + self._phase))
        slow *= 1 + noise.burst * (self._now_s >= self._burst_from_s)
        slow *= 1 + noise.spike * self.rng.expovariate(1) * (self.rng.random() < noise.spikes)
        self._now_s += seconds * slow * math.exp(self.rng.gauss(0, noise.run))


@dataclass(frozen=True)
class Fatigue:
    """A kernel that is fast in the first calls of its process, as one does that gives up its work later.

    Attributes:
        calls: Number of inferences that run at full speed.
        slowness: Time of the later ones, as a multiple of that of the first.
    """

    calls: int
    slowness: float


class LoadedArtifact(Executable):
    """An artifact loaded into one process of the machine."""

    def __init__(self, machine: Machine, seconds: float, fatigue: Fatigue | None = None) -> None:
        self._machine, self._fatigue, self._calls = machine, fatigue, 0
        self._seconds = seconds * math.exp(machine.rng.gauss(0, machine.noise.process))

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Return the inputs; nothing is computed."""
        return list(inputs.values())

    def run_repeatedly(self, number: int) -> None:
        """Run a number of inferences from a new place on the stack."""
        rng, stack = self._machine.rng, self._machine.noise.stack
        self._machine.spend(self._work(number) * self._seconds * (1 + rng.expovariate(1 / stack)))

    def _work(self, number: int) -> float:
        """Return the time of the next inferences, as a multiple of the first one's."""
        fast = number if self._fatigue is None else max(0, min(number, self._fatigue.calls - self._calls))
        self._calls += number
        return fast + (number - fast) * (self._fatigue.slowness if self._fatigue else 1.0)


class SimulatedEvaluator:
    """Candidates of one pass each; every one is a binary of its own with a known speed.

    Implements the protocol ``Evaluator``. The protocol of rounds and all statistics are the real ones.
    """

    def __init__(
        self,
        machine: Machine,
        gains: Mapping[str, float],
        *,
        compile_gains: Mapping[str, float] | None = None,
        plans: MeasurementPlans | None = None,
        latency_s: float = LATENCY_S,
        fatigue: Mapping[str, Fatigue] | None = None,
    ) -> None:
        """Simulate a network.

        Args:
            machine: The machine.
            gains: Speed as a multiple of the baseline's, by pipeline; 1 for a pipeline that is not named.
            compile_gains: Speed of the build as a multiple of the baseline's, in the same way.
            plans: Plans by which artifacts are timed.
            latency_s: Seconds of the baseline's inference.
            fatigue: Pipelines that are fast in their first calls only.
        """
        self._latency_s, self._fatigue = latency_s, fatigue or {}
        self._machine, self._gains, self._compile_gains = machine, gains, compile_gains or {}
        self.graph, self.batch, self.plans = StateGraph("root"), 1, plans or MeasurementPlans()

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return a state of its own for every pipeline, unless its first pass is forbidden."""
        if not pipeline.passes:
            return self.graph.root
        edge = self.graph.edge(self.graph.root, pipeline.passes[0])
        if edge is not None and isinstance(edge.target, Failure):
            return edge.target
        if edge is None:
            self.graph.add(self.graph.root, pipeline.passes[0], edge=Edge(str(pipeline), APPLY_S))
        return str(pipeline)

    def apply_seconds(self, pipeline: Pipeline) -> float | Failure:
        """Return the time to apply a pipeline."""
        return APPLY_S if pipeline.passes else 0.0

    def op_counts(self, state: str) -> Mapping[str, int]:
        """Return no counts: states are not told apart by their operators."""
        return {}

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return an artifact without files."""
        return Built(state, candidate.build, state, Path(state), state, state, self._build_s(state), 0, 0, 0)

    def build_candidate(self, candidate: Candidate) -> Built | Failure:
        """Return the artifact of the state that a pipeline leads to."""
        state = self.reach(candidate.pipeline)
        return state if isinstance(state, Failure) else self.build(state, candidate)

    def restore(self, built: Built) -> Built | Failure:
        """Return the artifact: it has no files that could be lost."""
        return built

    def discard(self, built: Built) -> None:
        """Do nothing: there are no files."""

    def make_room(self, needed: Collection[Built]) -> None:
        """Do nothing: there are no files."""

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        """Race both in one process."""
        samples = self._time([reference.digest, candidate.digest], self.plans.search_rounds)
        return CandidateSamples(samples[0], samples[1], {})

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts in several new processes."""
        assert isinstance(request.plan, RoundPlan)
        names = [Path(folder).name for folder in request.artifacts.folders]
        start_s = self._machine.now()
        rows = [self._time(names, request.plan)]
        process_s = START_S + self._machine.now() - start_s
        usual = self.plans.number_of_processes(request.least_s, process_s, left_s=request.left_s, most=request.most)
        processes = request.processes or usual
        rows += [self._time(names, request.plan) for _ in range(1, processes)]
        return TimedSamples(tuple(request.artifacts.split(row, QUIET) for row in rows), 0.0)

    def measure_consumption(self, key: str, folders: Sequence[str], *, plan: WindowPlan) -> None:
        """Return ``None``: the machine has no meter."""

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Return a compile that gives the same binary again."""
        state = str(self.reach(candidate.pipeline))
        build_s = self._build_s(state)
        return FreshCompile(Path(state), state, APPLY_S, build_s, APPLY_S + build_s)

    def _build_s(self, state: str) -> float:
        return self._machine.compile_s(BUILD_S / self._compile_gains.get(state, 1.0))

    def _time(self, names: Sequence[str], plan: RoundPlan) -> list[Samples]:
        loaded = [
            LoadedArtifact(self._machine, self._latency_s / self._gains.get(name, 1.0), self._fatigue.get(name))
            for name in names
        ]
        idle = CpuTimes(0.0, 0.0, 0.0, 0.0)
        # The effect of the stack is simulated, so runs need not begin at different places of the real one.
        plan = replace(plan, depths=1)
        race = run_race(loaded, plan, inputs={}, watch=lambda: idle, now=self._machine.now)
        return [tuple(row) for row in race.samples()]
