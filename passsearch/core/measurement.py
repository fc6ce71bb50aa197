"""Measurements, failures and objectives."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from passsearch.core.passes import Json
from passsearch.errors import UserError

FailureKind = Literal["compile_error", "crash", "timeout", "oom", "wrong_result", "unstable", "infra"]
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)

DEADLINE_S = 600.0
"""Longest time one request to a worker may take, where the user sets no other."""

STRICT: Mapping[str, float] = {"float64": 2**-20, "float32": 1024 * 2**-23, "float16": 64 * 2**-10}
"""Largest deviation of outputs that rounding explains, as a share of the largest reference output, by the type that a
network computes in: 1024 and 64 machine epsilons, and for float64 more, as TVM computes some of it in float32. The
evidence: docs/measurement.md."""


def strict_limit(dtypes: Iterable[str]) -> float:
    """The limit of the coarsest of the types a network computes in; 0 where none is a float."""
    return max((STRICT.get(dtype, 0.0) for dtype in dtypes), default=0.0)


@dataclass(frozen=True)
class Failure:
    """A candidate that did not make it: an ordinary result, never an exception and never a number.

    Attributes:
        kind: One of ``FAILURE_KINDS``.
        stage: ``apply``, ``build`` or ``measure``.
        step: The pass it failed in, where the stage is ``apply``, else empty.
        reason: One line.
    """

    kind: FailureKind
    stage: str
    step: str
    reason: str

    def to_json(self) -> dict[str, Json]:
        """The form of the log and of worker answers."""
        return {"kind": self.kind, "stage": self.stage, "step": self.step, "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Failure":
        """Inverse of ``to_json``."""
        kind = data["kind"]
        assert kind in FAILURE_KINDS
        return cls(kind, str(data["stage"]), str(data["step"]), str(data["reason"]))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float

    def to_json(self) -> list[Json]:
        """``[low, high]``."""
        return [self.low, self.high]


@dataclass(frozen=True)
class Measurement:
    """One candidate as measured: raw samples and single readings, each ``None`` where it could not be read.

    Attributes:
        latency_s: Seconds per inference, one value a round, in the order measured.
        compile_s: Seconds to apply the pipeline, build it and write the kernels out.
        apply_s: The pipeline's part of ``compile_s``.
        batch: Samples per inference; throughput is ``batch / latency``.
        memory_bytes: ``plan`` (static memory plan), ``peak_rss`` (process) and ``device``.
        artifact_bytes: Size of the built files.
        power_w: ``median`` and ``max`` over long windows.
        temperature_c: Likewise.
        energy_j: Energy per inference.
        unavailable: Why a metric is ``None``, by metric.
        conditions: Threads, affinity, load and clocks while it was measured.
    """

    latency_s: tuple[float, ...]
    compile_s: float | None = None
    apply_s: float | None = None
    batch: int = 1
    memory_bytes: Mapping[str, int | None] = field(default_factory=dict)
    artifact_bytes: int | None = None
    power_w: Mapping[str, float] | None = None
    temperature_c: Mapping[str, float] | None = None
    energy_j: float | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """What a search makes better.

    Attributes:
        name: As the user types it.
        unit: Unit of its value.
        direction: ``maximize`` or ``minimize``.
    """

    name: str
    unit: str
    direction: Literal["maximize", "minimize"]

    @classmethod
    def parse(cls, name: str) -> "Objective":
        """Look an objective up by name.

        Raises:
            UserError: No such objective; lists those there are.
        """
        for objective in OBJECTIVES:
            if objective.name == name:
                return objective
        names = ", ".join(objective.name for objective in OBJECTIVES)
        raise UserError(f"Unknown objective `{name}`; choose from: {names}.")


OBJECTIVES: tuple[Objective, ...] = (
    Objective("throughput", "1/s", "maximize"),
    Objective("latency", "s", "minimize"),
    Objective("compile_time", "s", "minimize"),
    Objective("memory", "bytes", "minimize"),
    Objective("power", "W", "minimize"),
    Objective("energy", "J", "minimize"),
)
