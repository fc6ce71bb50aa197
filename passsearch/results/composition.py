"""What a search composed of the times of single kernels."""

from dataclasses import dataclass
from typing import Annotated

from passsearch.results.candidate import StatedFailure
from passsearch.results.parts import Positive
from passsearch.results.record import Allowed, Record, key, left_out


@dataclass(frozen=True)
class PredictedTime(Record):
    """A predicted time in seconds.

    Attributes:
        value: The time.
        interval: The interval that holds it.
    """

    value: Positive
    interval: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class RegionDecision(Record):
    """A decision on the regions of one kind.

    Attributes:
        step: The pass.
        regions: The regions in the pass's argument.
        value: What was decided.
        saved_s: Predicted seconds that it saves.
    """

    step: str = key("pass", default="")
    regions: tuple[str, ...] = ()
    value: object = None
    saved_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ComposedPipeline(Record):
    """The pipeline that the times of kernels decided on.

    Attributes:
        pipeline: The pipeline.
        begin_s: Predicted seconds of the pipeline that it was made of.
        predicted_s: Predicted seconds of an inference.
        inference_s: Predicted seconds of a whole inference in a new process.
        bound_s: Seconds that no other choice is predicted to be below.
        kernels: Number of kernels that were timed.
        variants: Number of their variants that were timed.
        combinations_log10: Number of pipelines that the times decide between, as a power of ten.
        decisions: Decisions by region.
        recalled: Number of variants that an earlier run had timed.
    """

    pipeline: str
    begin_s: Positive
    predicted_s: Positive
    inference_s: PredictedTime | None = None
    bound_s: float | None = left_out()
    kernels: int
    variants: int
    combinations_log10: Annotated[float, Allowed(most=1e6)]
    decisions: tuple[RegionDecision, ...]
    recalled: int = 0


@dataclass(frozen=True)
class NoComposition(Record):
    """Why nothing was composed of single kernels.

    Attributes:
        failure: The failure because of which nothing was composed.
        recalled: Number of variants that an earlier run had timed.
    """

    failure: StatedFailure
    recalled: int = 0
