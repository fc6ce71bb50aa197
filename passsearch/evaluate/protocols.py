"""The seam between searching and evaluating: what a search needs of an evaluator, and what an exploration needs."""

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from passsearch.core import Candidate, Failure, PassSpec, Pipeline
from passsearch.dialects.contract import Kernel
from passsearch.evaluate.kernel_store import NetworkKernels, Region
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.evaluate.records import Built, FreshCompile
from passsearch.evaluate.state_graph import Edge, StateGraph
from passsearch.evaluate.timed_records import CandidateSamples, Consumed, PlaceTimes, TimedSamples, TimingRequest
from passsearch.measure import WindowPlan
from passsearch.store import Fact


class Evaluator(Protocol):
    """Evaluates candidates of one network: from the pipeline over the state and the build to samples.

    ``WorkerEvaluator`` asks compiler processes; ``testing.SimulatedEvaluator`` and ``testing.RecordedEvaluator`` need
    no compiler. A failure of a candidate is returned, not raised.

    Attributes:
        graph: The states reached so far.
        batch: Samples per inference.
        plans: Plans by which artifacts are timed.
    """

    graph: StateGraph
    batch: int
    plans: MeasurementPlans

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return the state a pipeline leads to."""

    def apply_seconds(self, pipeline: Pipeline) -> float | Failure:
        """Return the time that this run takes to apply exactly this pipeline, or why it cannot be applied."""

    def op_counts(self, state: str) -> Mapping[str, int]:
        """Return the counts of operators, fused groups and constants of a state; empty if they are unavailable."""

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Build a state with a candidate's options and judge its outputs by the candidate's limit.

        Args:
            state: The state.
            candidate: The candidate.
            longest_s: Longest inference in seconds that is of interest; after a longer one outputs are
                compared on one input only.
        """

    def restore(self, built: Built) -> Built | Failure:
        """Make sure that the files of an artifact exist."""

    def discard(self, built: Built) -> None:
        """Delete the files of an artifact; ``restore`` makes them again."""

    def make_room(self, needed: Collection[Built]) -> None:
        """Delete the files of all artifacts but these if the run holds much of the disk.

        A run that holds more than it may is ended where it would make another artifact.
        """

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        """Time a candidate of a search against a reference, interleaved in one process."""

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts against each other in new processes."""

    def measure_consumption(self, key: str, folders: Sequence[str], *, plan: WindowPlan) -> Consumed | Failure | None:
        """Measure power, energy, temperature and utilisation while artifacts run in a new process.

        Return ``None`` without a meter, or where no result is recorded and the files no longer exist.
        """

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Compile a candidate in a process of its own, as a deployment does, and check the state it reaches.

        Args:
            key: Names this compile in the log, and its folder.
            candidate: Candidate to compile.
            timing_key: Key of the samples it is compiled for.
            kinds: Kinds of facts under that key. Once all of them are recorded the files are not needed.
        """


class KernelProfiler(Protocol):
    """Lists the kernels of states, and times them alone or in their network."""

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return the state a pipeline leads to."""

    def kernels(self, state: str) -> NetworkKernels | Failure:
        """Return the kernels of a state that are not scheduled yet; none for an IR that does not show them."""

    def regions(self, state: str, function: str) -> tuple[Region, ...] | Failure:
        """Return the regions of a state that the catalog's ``module:function`` lists."""

    def variants(
        self, network: NetworkKernels, kernel: Kernel, steps: Sequence[PassSpec]
    ) -> Mapping[PassSpec, float] | Failure:
        """Return the seconds of one run of a kernel alone, by the pass that schedules it; failures are left out.

        If every schedule fails, return the failure of the first. Outputs are compared with those of the first.
        """

    def is_timed(self, network: NetworkKernels, kernel: Kernel, step: PassSpec) -> bool:
        """Return whether an earlier start of the run timed a schedule, so that ``variants`` takes no time."""

    def time_ahead(self, network: NetworkKernels, kernels: Sequence[Kernel], steps: Sequence[PassSpec]) -> bool:
        """Time schedules of several kernels ahead, so that ``variants`` finds them; return False on a CPU."""

    def stop_time_ahead(self) -> None:
        """End the processes that ``time_ahead`` has started."""

    def in_places(
        self, candidates: Sequence[Candidate], *, deadline_s: float = math.inf, is_judged: bool = True
    ) -> tuple[PlaceTimes, ...]:
        """Build candidates, run them in turns, and return the times of their kernels by candidate.

        The result is empty if a candidate fails or the runtime does not tell kernels apart.

        Args:
            candidates: The candidates.
            deadline_s: Seconds after which no further process begins to time them; the first one always does.
            is_judged: False for candidates that are never a result, whose outputs may be anything.
        """


class StepCompiler(Protocol):
    """Applies one pass to one state."""

    def apply(self, state: str, step: PassSpec, *, identify: bool = False) -> Fact:
        """Return ``seconds`` with ``state`` or ``failure``."""

    def interrupt(self) -> None:
        """Let an application that another thread waits for fail at once."""


class Explorer(Protocol):
    """Grows a state graph edge by edge, and remembers what was explored.

    Attributes:
        graph: The states reached so far.
        explored: True if this run has spent its time for exploration; a resumed run does not explore further.
    """

    graph: StateGraph

    @property
    def explored(self) -> bool:
        """See the class."""

    def cached_edge(self, state: str, step: PassSpec) -> Edge | None:
        """Return the edge of a pass on a state if it is recorded or known to fail; apply nothing."""

    def cached_edge_before_sampling(self, state: str, step: PassSpec) -> Edge | None:
        """Return a cached edge if this run had it when its sampler started, so that a resumed run repeats itself."""

    def record_edge(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        """Record the answer of ``StepCompiler.apply``."""

    def expand(self, state: str, steps: Sequence[PassSpec]) -> None:
        """Apply every one of these passes to a state, where that is not recorded."""

    def forbid(self, step: PassSpec, reason: str) -> None:
        """Record that a pass is nondeterministic, for this reason; from now on it fails on every state."""

    def is_forbidden(self, step: PassSpec) -> bool:
        """Return whether a pass was found to be nondeterministic, by this run or an earlier one."""

    def compilers(self, number: int) -> AbstractContextManager[Sequence[StepCompiler]]:
        """Open several compilers that work side by side and share their states."""

    def explored_s(self, steps: Sequence[PassSpec]) -> float:
        """Return how long this and earlier runs have explored these passes, in seconds."""

    def record_exploration(self, steps: Sequence[PassSpec], *, seconds: float) -> None:
        """Record exploration time."""
