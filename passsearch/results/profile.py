"""The document of a profile."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import NamedPipeline
from passsearch.results.record import Record
from passsearch.results.setup import MeasuredNetwork


@dataclass(frozen=True)
class MeasuredPeaks(Record):
    """What some threads of the processor can do at most.

    Attributes:
        threads: Number of threads.
        flops: Operations in single precision a second.
        bytes_per_s: Bytes a second that they read from memory.
    """

    threads: int
    flops: float
    bytes_per_s: float


@dataclass(frozen=True, kw_only=True)
class ProfiledKernel(Record):
    """A kernel of a profile.

    Attributes:
        kernel: Its name.
        calls: Number of its calls.
        weighted_calls: The same by the weights of the cases.
        seconds: Seconds of all its calls in an inference.
        flops: Operations of one call; ``None`` if they are unknown.
        bytes: Bytes of its arguments and results.
        code_bytes: Size of its machine code.
        bound: What limits it, arithmetic or memory.
        roof_share: The least time that the peaks allow, as a share of its time.
        energy_j: Joules of all its calls.
    """

    kernel: str
    calls: int
    weighted_calls: float
    seconds: float
    flops: float | None
    bytes: float | None
    code_bytes: int | None
    bound: str | None
    roof_share: float | None
    energy_j: float | None = None


@dataclass(frozen=True)
class BlockTime(Record):
    """The time of one part of a network.

    Attributes:
        part: The part.
        calls: Number of calls of kernels.
        seconds: Their seconds.
    """

    part: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class KernelCall(Record):
    """One call of a kernel.

    Attributes:
        kernel: The kernel.
        seconds: Its seconds.
        part: The part of the network that it belongs to, where that is known.
    """

    kernel: str
    seconds: float
    part: str | None


@dataclass(frozen=True, kw_only=True)
class ProfiledPipeline(NamedPipeline):
    """The times of a pipeline.

    Attributes:
        binary: Digest of the built files.
        whole_s: Seconds of the fastest inference.
        whole_s_by_process: The same by process.
        observer_s: Seconds that watching one call takes.
        kernels_s: Seconds of all kernels.
        kernels_share: Their share of the inference.
        rest: Seconds of the rest of the inference.
        is_alone: True for kernels that ran alone.
        kernels: The kernels, the slowest first.
        blocks: The parts of the network, where it shows them.
        calls: The calls in their order.
    """

    binary: str
    whole_s: float
    whole_s_by_process: tuple[float, ...]
    observer_s: float
    kernels_s: float
    kernels_share: float
    rest: Mapping[str, float]
    is_alone: bool
    kernels: tuple[ProfiledKernel, ...]
    blocks: tuple[BlockTime, ...] | None
    calls: tuple[KernelCall, ...]


@dataclass(frozen=True, kw_only=True)
class Profile(MeasuredNetwork):
    """A profile, as ``profile --json`` prints it.

    Attributes:
        threads: Number of threads.
        peaks: What the machine can do at most.
        peaks_reason: Why that is unknown.
        unavailable: Reason why a metric is missing, by metric.
        pipelines: The pipelines; the first one is the baseline.
    """

    threads: int
    peaks: MeasuredPeaks | None
    peaks_reason: str
    unavailable: Mapping[str, str]
    pipelines: tuple[ProfiledPipeline, ...]
