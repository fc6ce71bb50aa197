"""A space whose every state was built and timed before, so that a search on it needs no compiler."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate.closure import Closure
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.evaluate.records import Built, FreshCompile
from passsearch.evaluate.timed_records import CandidateSamples, TimedSamples, TimingRequest
from passsearch.measure import WindowPlan


@dataclass(frozen=True)
class RecordedBuild:
    """One recorded build.

    Attributes:
        ratio: Throughput as a multiple of the baseline's.
        compile_s: Seconds to apply the cheapest pipeline and to build.
        digest: Digest of the binary.
        kernels: Digest of the lowered functions and of the order of their calls.
    """

    ratio: float
    compile_s: float
    digest: str
    kernels: str


BuildKey: TypeAlias = tuple[str, int]
"""A state and the opt level of its build."""


class RecordedEvaluator:
    """Answers from a closed graph and a table of builds. Implements the protocol ``Evaluator``.

    A winner cannot be confirmed: nothing is compiled or timed again.

    Attributes:
        measured: Builds in the order in which they were first measured; a failed build took its time as well.
    """

    def __init__(
        self,
        closure: Closure,
        builds: Mapping[BuildKey, RecordedBuild | Failure],
        op_counts: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Answer for one network.

        Args:
            closure: The closed graph.
            builds: Builds by state and opt level.
            op_counts: Operator counts by state.
        """
        self.graph, self.batch, self.plans = closure.graph, 1, MeasurementPlans()
        self._builds, self._op_counts = builds, op_counts
        self.measured: dict[BuildKey, None] = {}

    def reach(self, pipeline: Pipeline) -> str | Failure:
        """Return the state a pipeline leads to.

        Raises:
            KeyError: A pass is not part of the recorded space.
        """
        state = self.graph.root
        for step in pipeline.passes:
            edge = self.graph.edge(state, step)
            if edge is None:
                raise KeyError(f"`{step}` is not in the recorded space.")
            if isinstance(edge.target, Failure):
                return edge.target
            state = edge.target
        return state

    def apply_seconds(self, pipeline: Pipeline) -> float | Failure:
        """Return the recorded time to reach the state of a pipeline."""
        state = self.reach(pipeline)
        return state if isinstance(state, Failure) else self.graph.cheapest(state)[1]

    def op_counts(self, state: str) -> Mapping[str, int]:
        """Return the operator counts of a state."""
        return self._op_counts[state]

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return the recorded build of a state."""
        level = candidate.build.opt_level
        record = self._builds[state, level]
        if isinstance(record, Failure):
            self.measured[state, level] = None
            return record
        # The search adds the time of the cheapest pipeline, which the recorded time includes.
        build_s = record.compile_s - self.graph.cheapest(state)[1]
        key, digests = f"{state}|O{level}", (record.digest, record.kernels)
        return Built(state, candidate.build, key, Path(key), *digests, build_s, 0, None, None)

    def restore(self, built: Built) -> Built | Failure:
        """Return the artifact: it has no files that could be lost."""
        return built

    def discard(self, built: Built) -> None:
        """Do nothing: there are no files."""

    def make_room(self, needed: Collection[Built]) -> None:
        """Do nothing: there are no files."""

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        """Return samples with the recorded ratios to the baseline."""
        self.measured[candidate.state, candidate.options.opt_level] = None
        records = (self._builds[built.state, built.options.opt_level] for built in (reference, candidate))
        seconds = [1.0 / record.ratio for record in records if isinstance(record, RecordedBuild)]
        return CandidateSamples((seconds[0],), (seconds[1],), {})

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Fail: a recorded space is not timed again."""
        return Failure("infra", "measure", "", "a recorded space is not timed again")

    def measure_consumption(self, key: str, folders: Sequence[str], *, plan: WindowPlan) -> None:
        """Return ``None``: consumption is not recorded."""

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Fail: a recorded space is not compiled again."""
        return Failure("infra", "build", "", "a recorded space is not compiled again")
