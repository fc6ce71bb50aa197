"""What every document on a measured network begins with."""

from dataclasses import dataclass

from passsearch.results.network import Model
from passsearch.results.parts import Compiler, Device
from passsearch.results.record import Record


@dataclass(frozen=True, kw_only=True)
class MeasuredNetwork(Record):
    """A network that was measured by one compiler on one device.

    Attributes:
        schema: Version of the form.
        measured_at: Time of the last measurement, in ISO 8601 and UTC.
        model: The network.
        target: TVM's target.
        toolchain: The compiler.
        device: The machine.
    """

    schema: str
    measured_at: str | None = None
    model: Model
    target: str
    toolchain: Compiler
    device: Device
