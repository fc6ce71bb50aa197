"""The document of a pipeline that was applied, pass by pass."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.record import Record, key, left_out


@dataclass(frozen=True, kw_only=True)
class AppliedStep(Record):
    """A pass that was applied.

    Attributes:
        step: The pass.
        changed: True if it changed the IR; ``None`` if it failed.
        seconds: Seconds that it took.
        operators: How many more or fewer there are of each operator that changed in number.
        ir: The IR ``before`` and ``after`` the pass, where it was asked for.
        weights: Kernels with large constant weights and how the pass stored these, with the reason where they stay
            float32; left out for other passes.
    """

    step: str = key("pass")
    changed: bool | None
    seconds: float
    operators: Mapping[str, int] | None
    ir: Mapping[str, str | None] | None
    weights: tuple[str, ...] | None = left_out()


@dataclass(frozen=True)
class Application(Record):
    """A pipeline that was applied, as ``apply --json`` prints it.

    Attributes:
        toolchain: Name of the toolchain.
        target: TVM's target.
        pipeline: The pipeline.
        steps: The passes that were tried.
        failure: The failure of the last one.
        traceback: Its traceback; empty without a failure.
    """

    toolchain: str
    target: str
    pipeline: str
    steps: tuple[AppliedStep, ...]
    failure: StatedFailure | None
    traceback: str
