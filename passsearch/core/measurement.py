"""Measurements and failures."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from passsearch.core.budget import TF32
from passsearch.core.passes import Json
from passsearch.errors import EnvironmentFault, PassSearchError, UserError

# `infra` is an accident of the machine, such as a full disk or a killed worker: it is retried and never recorded as a
# property of a candidate. All other kinds are results.
FailureKind = Literal["compile_error", "crash", "timeout", "oom", "wrong_result", "other_bits", "unstable", "infra"]
FAILURE_KINDS: tuple[str, ...] = get_args(FailureKind)

MACHINE_FAULTS: frozenset[str] = frozenset({"infra", "oom"})
"""Kinds of failures that say nothing about what was tried: a full disk, too little memory, a missing library."""

DEADLINE_S = 600.0
"""Longest time of one request to a worker, in seconds, unless the user sets another."""

USUAL_TRIALS = 60
"""Number of candidates that a search evaluates besides the baselines, unless the user says otherwise."""

LEAST_GAIN = 0.02
"""Share of throughput that a search must be able to add to the recommended sequence, unless the user says otherwise."""

USUAL_REPETITIONS = 3
"""Fewest fresh compiles that confirm a winner, unless the user says otherwise. Two leave intervals too wide to use."""

# 2**-23 and 2**-10 are the machine epsilons of float32 and float16. Correct pipelines deviated by at most 23 and 22
# epsilons, wrong ones by 0.1 and more (docs/evidence/measurement.md): a looser limit (1e-3 in float32) hides errors.
# float64 gets more than 2**-52 allows, because TVM computes some of it in float32.
STRICT_LIMITS: Mapping[str, float] = {
    "float64": 2**-20,
    "float32": 1024 * 2**-23,
    "float16": 64 * 2**-10,
    "bfloat16": 8 * 2**-7,
    # Factors alone are rounded, and outputs of networks then deviate by 0.5 to 2 epsilons (docs/evidence/gpu.md).
    TF32: 16 * 2**-10,
}
"""Largest deviation of outputs that rounding can explain, relative to the largest reference output, by the dtype that
the network computes in."""

TF32_STEP = 2**13
"""Steps of float32 in one of TF32."""


OUTPUT_LIMITS: Mapping[str, float] = {"float16": 2**-10 + 2**-13, "bfloat16": 2**-7 + 2**-13}
"""The same for a network that computes in float32 and rounds its outputs to 16 bits: one step of the output, where
float32 decides between two, and float32's own limit."""

QUANTIZED_LIMIT = 8 * 2**-7
"""The same for a network that rounds floats to 8-bit integers: eight steps of a signed one. A rounding error in the
last place of a float moves a value that lies between two steps to the other one; a deep network adds up several."""


CHANGE_MARGIN = 4.0
"""Factor between the change of the reference's outputs, when inputs move by one rounding, and the deviation that this
allows.

Of 33 correct builds of a decoder on large inputs, the worst deviated by 2.4 times that change
(docs/evidence/measurement.md).
"""

UNSTABLE, UNSTABLE_MARGIN = 1e-3, 16.0
"""Change of the reference from which on the case is unstable, and the factor there: an attention that takes another
maximum changes by jumps, of which few movements of the inputs find the largest."""

MOST_ALLOWED = 0.5
"""Largest deviation that an unstable reference allows: outputs that are all 0 deviate by 1 of the largest."""


def allowed_deviation(limit: float, change: float, *, step: float = 1.0) -> float:
    """Return the largest deviation that inputs allow on which the reference itself changes by rounding.

    Args:
        limit: Largest deviation where it does not.
        change: Change of its outputs when the inputs move by one rounding, as a share of the largest.
        step: Number of such roundings in one of the candidate's: ``TF32_STEP`` in TF32.
    """
    margin = UNSTABLE_MARGIN if change > UNSTABLE else CHANGE_MARGIN
    return max(limit, min(margin * step * change, MOST_ALLOWED))


def strict_limit(dtypes: Iterable[str], *, quantizes: bool = False, rounded: Collection[str] = ()) -> float:
    """Return the largest deviation of outputs that rounding can explain.

    Args:
        dtypes: Those that the network computes in. The least precise float counts; without floats, the limit is 0.
        rounded: Those of them that only outputs are rounded to.
        quantizes: True for a network that rounds floats to integers.
    """
    limits = {**STRICT_LIMITS, **{dtype: OUTPUT_LIMITS[dtype] for dtype in rounded}}
    limit = max((limits.get(dtype, 0.0) for dtype in dtypes), default=0.0)
    return max(limit, QUANTIZED_LIMIT) if quantizes else limit


PASSES, CONSTANTS, LOWERING, CODEGEN, WRITING = COMPILE_PARTS = (
    "passes",
    "constants",
    "lowering",
    "codegen",
    "writing",
)
"""What compile time is spent on: graph passes, evaluating constants, lowering to kernels, code generation, linking."""


FOLDING = "FoldConstant"
"""Name of the pass that evaluates constants. TVM's own compiles every constant expression and runs it."""


@dataclass(frozen=True)
class Failure:
    """A candidate that failed, as an ordinary value: never an exception and never a number.

    Attributes:
        kind: One of ``FAILURE_KINDS``.
        stage: ``apply``, ``build`` or ``measure``.
        step: The pass that failed if the stage is ``apply``, else empty.
        reason: One line for people.
        log: File with the whole traceback, relative to the run's folder; empty if the failure was recalled from
            another run, or is passsearch's own decision.
    """

    kind: FailureKind
    stage: str
    step: str
    reason: str
    log: str = field(default="", compare=False)

    @property
    def is_of_machine(self) -> bool:
        """True if the machine failed and not the candidate, or cannot do what was asked for."""
        return self.kind in MACHINE_FAULTS

    def as_error(self, text: str) -> PassSearchError:
        """Return the error by which this failure ends a command: a fault of the machine, or of the request."""
        return EnvironmentFault(text) if self.is_of_machine else UserError(text)

    def to_json(self) -> dict[str, Json]:
        """Return the failure as the log and worker answers store it."""
        log = {"log": self.log} if self.log else {}
        return {"kind": self.kind, "stage": self.stage, "step": self.step, "reason": self.reason, **log}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Failure":
        """Read what ``to_json`` returns."""
        kind = data["kind"]
        assert kind in FAILURE_KINDS
        # mypy does not narrow a str to a Literal by a membership test.
        log = str(data.get("log", ""))
        return cls(kind, str(data["stage"]), str(data["step"]), str(data["reason"]), log)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float

    def to_json(self) -> list[Json]:
        """Return ``[low, high]``."""
        return [self.low, self.high]
