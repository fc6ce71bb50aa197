"""The document of an audit."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.parts import Compiler, Device, Ratios, StatedRatio
from passsearch.results.record import Record


@dataclass(frozen=True)
class Check(Record):
    """One comparison of an audit with the record of the run.

    Attributes:
        name: Name of the check.
        ok: True if the record agrees.
        detail: The result in words.
    """

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class SequenceGain(Record):
    """What the winner gains over the best sequence of the catalog, measured again.

    Attributes:
        gain: The winner's throughput over the sequence's.
        improved: True if the gain is certain.
    """

    gain: StatedRatio
    improved: bool


@dataclass(frozen=True)
class Audit(Record):
    """An audit, as ``audit --json`` prints it.

    Attributes:
        schema: Version of the form.
        measured_at: Time of the audit, in ISO 8601 and UTC.
        signed_off: True if no check refuses the claim.
        checks: The checks, in their order.
        claimed: The verdict of the run.
        level: Level of the intervals.
        ratios: Ratios that were measured again; ``None`` if none were.
        sequence: What the winner gains over the best sequence of the catalog; ``None`` if that was not timed.
        seconds: Seconds that the measurement took; ``None`` if there was none.
        toolchain: The compiler.
        device: The device.
    """

    schema: str
    measured_at: str
    signed_off: bool
    checks: tuple[Check, ...]
    claimed: Mapping[str, object]
    level: float
    ratios: Ratios | None
    sequence: SequenceGain | None
    seconds: float | None
    toolchain: Compiler
    device: Device

    @property
    def refusal(self) -> Check | None:
        """The first check that refuses the claim."""
        return next((check for check in self.checks if not check.ok), None)
