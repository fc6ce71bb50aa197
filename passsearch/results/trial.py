"""The document of a trial: a foreign kernel in the place of one of a network."""

from dataclasses import dataclass

from passsearch.results.audit import Check
from passsearch.results.network import Model
from passsearch.results.parts import Compiler, Device, StatedRatio
from passsearch.results.record import Record


@dataclass(frozen=True)
class TriedKernel(Record):
    """The kernel that was tried, and its place.

    Attributes:
        kernel: Name of the kernel whose place it takes.
        file: Its file; empty if none was given.
        sha256: Digest of the file.
        prototype: How a function in C begins that can stand there.
    """

    kernel: str
    file: str
    sha256: str
    prototype: str


@dataclass(frozen=True)
class TrialTimes(Record):
    """Times of a foreign kernel in its place beside the present one, in processes that run both networks in turns.

    Attributes:
        processes: Number of processes.
        present_s: Seconds of all calls of the present kernel in one inference, the fastest of all processes.
        foreign_s: The same of the foreign kernel.
        kernel: Speed of the foreign kernel over the present one's, in their places.
        network: Throughput of the network with the foreign kernel over that with the present one.
    """

    processes: int
    present_s: float
    foreign_s: float
    kernel: StatedRatio
    network: StatedRatio


@dataclass(frozen=True)
class KernelTrial(Record):
    """A trial, as ``try --json`` prints it.

    Attributes:
        schema: Version of the form.
        measured_at: Time of the trial, in ISO 8601 and UTC.
        model: The network.
        pipeline: The passes of the network as it is without the foreign kernel.
        target: TVM's target.
        toolchain: The compiler.
        device: The device.
        tried: The kernel.
        admitted: True if no check refuses it.
        reason: The first refusal; empty if there is none.
        checks: The checks, in their order.
        verdict: ``faster``, ``slower`` or ``no certain difference``; empty if it was not timed.
        times: Times in its place; ``None`` if it was not timed.
        folder: Folder of the export with the kernel; empty if there is none.
        not_exported: Why there is no export although one was asked for.
        seconds: Seconds that the trial took.
    """

    schema: str
    measured_at: str
    model: Model
    pipeline: str
    target: str
    toolchain: Compiler
    device: Device
    tried: TriedKernel
    admitted: bool
    reason: str
    checks: tuple[Check, ...]
    verdict: str
    times: TrialTimes | None
    folder: str
    not_exported: str
    seconds: float
