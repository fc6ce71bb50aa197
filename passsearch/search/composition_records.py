"""What a composition decides by and on: predicted costs, decisions on regions, and the composed pipeline."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.core import Interval, Json, PassSpec, Pipeline
from passsearch.results import ComposedPipeline, PredictedTime, RegionDecision


@dataclass(frozen=True)
class Cost:
    """The predicted time of one inference.

    Attributes:
        calls: Number of calls by digest of the kernel; the mean by weights where there are several cases.
        seconds: Seconds of one call by digest, each kernel with its fastest schedule.
        schedules: The pass that schedules each kernel fastest, by name of the kernel.
        default_s: Seconds of all calls, each kernel with the schedule that the pipeline gives all.
    """

    calls: Mapping[str, float]
    seconds: Mapping[str, float]
    schedules: Mapping[str, PassSpec]
    default_s: float

    @property
    def total_s(self) -> float:
        """Sum over all calls."""
        return math.fsum(number * self.seconds[digest] for digest, number in self.calls.items())


@dataclass(frozen=True)
class Decision:
    """A value for the regions of one kind.

    Attributes:
        step: Name of the pass.
        regions: Names of the regions in the pass's argument.
        value: The value.
        saved_s: Predicted seconds that it saves.
        replaced: Number of calls that it replaces, by digest of the kernel.
        added: Digests of the kernels that are called more often with it.
    """

    step: str
    regions: tuple[str, ...]
    value: Json
    saved_s: float
    replaced: Mapping[str, float]
    added: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Composition:
    """The pipeline that is predicted to be the fastest.

    Attributes:
        pipeline: The pipeline, with the decisions as arguments of its passes.
        begin_s: Predicted seconds of the pipeline that it was made of, each kernel with its default schedule.
        predicted_s: Predicted seconds of the composed pipeline.
        inference_s: Predicted seconds of its fastest whole inference in a new process, and the interval that holds
            them; ``None`` if no inference was timed.
        bound_s: Lower bound of the prediction: no other schedules, and no other regions of a single pass, are predicted
            to take less. It is below ``predicted_s`` because gains within the noise are not used, nor are schedules
            that were timed alone only.
        kernels: Number of kernels that were timed.
        variants: Number of schedules of these kernels that were timed.
        combinations: Number of pipelines that the times decide between, as a power of ten.
        decisions: The decisions on regions.
    """

    pipeline: Pipeline
    begin_s: float
    predicted_s: float
    inference_s: tuple[float, Interval] | None
    bound_s: float
    kernels: int
    variants: int
    combinations: float
    decisions: tuple[Decision, ...]

    def stated(self, *, recalled: int) -> ComposedPipeline:
        """Return the form of results; ``recalled`` is the number of schedules that an earlier run has timed."""
        whole = self.inference_s and PredictedTime(
            self.inference_s[0], (self.inference_s[1].low, self.inference_s[1].high)
        )
        return ComposedPipeline(
            pipeline=str(self.pipeline),
            begin_s=self.begin_s,
            predicted_s=self.predicted_s,
            inference_s=whole,
            bound_s=self.bound_s,
            kernels=self.kernels,
            variants=self.variants,
            combinations_log10=round(self.combinations, 1),
            decisions=tuple(
                RegionDecision(step=each.step, regions=each.regions, value=each.value, saved_s=each.saved_s)
                for each in self.decisions
            ),
            recalled=recalled,
        )
