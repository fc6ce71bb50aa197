"""The documents of batch jobs."""

from dataclasses import dataclass

from passsearch.results.record import Record, left_out


@dataclass(frozen=True)
class JobProgress(Record):
    """A job and how far it is.

    Attributes:
        job: Name of the job.
        device: Name of its device.
        state: ``new``, ``queued``, ``running``, ``finished``, ``interrupted`` or ``failed``.
        progress: The current or last step.
        reason: Reason of the state; empty where there is nothing to explain.
        executor: Queue that it was submitted to.
        id: Its number there.
        starts: Number of processes that began it.
        host: Name of the node; empty if it has not begun.
        reported_at: Time of its last report, in ISO 8601 and UTC; empty if there is none.
        particulars: Batch, inputs, samples and target, where the file has them; the name has all else.
    """

    job: str
    device: str
    state: str
    progress: str
    reason: str
    executor: str | None
    id: str | None
    starts: int
    host: str
    reported_at: str
    particulars: str = ""


@dataclass(frozen=True)
class CrossRow(Record):
    """A winner on a device where it was compared.

    Attributes:
        network: The network.
        objective: The objective.
        found_on: Device of the search that found it.
        measured_on: Device of the comparison.
        pipeline: The winner.
        baseline: Name of the baseline.
        baseline_ratio: Throughput over the baseline's.
        baseline_low: Lower end of its interval.
        baseline_high: Upper end of its interval.
        baseline_verdict: Verdict on it.
        own_ratio: Throughput over that of the device's own winner.
        own_low: Lower end of its interval.
        own_high: Upper end of its interval.
        own_verdict: Verdict on it.
        baseline_compile_s: Seconds of a compile of the baseline.
        compile_s: Seconds of a compile of the winner.
        failure: Reason why it fails there.
    """

    network: str
    objective: str
    found_on: str
    measured_on: str
    pipeline: str
    baseline: str
    baseline_ratio: float | None
    baseline_low: float | None
    baseline_high: float | None
    baseline_verdict: str | None
    own_ratio: float | None
    own_low: float | None
    own_high: float | None
    own_verdict: str | None
    baseline_compile_s: float | None
    compile_s: float | None
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class BatchStates(Record):
    """The states of the jobs of a file, as ``batch status --json`` prints them.

    Attributes:
        file: The file.
        runs: Folder of the runs.
        output: Folder of the jobs' output.
        jobs: The jobs.
        submitted: Names of the jobs that were submitted now, where some might be.
        cancelled: Names of the jobs that were cancelled, where some might be.
        cross: The comparisons across devices, for ``batch cross``.
    """

    file: str
    runs: str
    output: str
    jobs: tuple[JobProgress, ...]
    submitted: tuple[str, ...] | None = left_out()
    cancelled: tuple[str, ...] | None = left_out()
    cross: tuple[CrossRow, ...] | None = left_out()


@dataclass(frozen=True, kw_only=True)
class FoundRow(Record):
    """A job with what its run found, in one level, as the CSV file has it; ``None`` for a job without a result.

    Attributes:
        job: Name of the job.
        network: The network.
        batch: Size of the batch.
        objective: The objective.
        device: Name of the device in the jobs file.
        run: The run folder.
        finished: True if there is a result.
        hardware: Name of the machine.
        toolchain: Name of the toolchain; without a result, as the file has it.
        tvm_version: Version of TVM.
        target: TVM's target; without a result, as the file has it.
        gain_of: The objective of ``gain``.
        improved: True if the winner is certainly better than the baseline.
        confirmed: True if fresh compiles have confirmed it.
        gain: How many times better it is.
        gain_low: Lower end of the interval.
        gain_high: Upper end of the interval.
        throughput_ratio: Throughput over the baseline's.
        throughput_low: Lower end of the interval.
        throughput_high: Upper end of the interval.
        compile_time_ratio: The baseline's compile time over the winner's.
        compile_time_low: Lower end of the interval.
        compile_time_high: Upper end of the interval.
        sequence: The fastest sequence of the catalog.
        sequence_gain: Throughput of the winner over its.
        sequence_gain_low: Lower end of the interval.
        sequence_gain_high: Upper end of the interval.
        rival: The engine beside the winner over which it has the lowest throughput.
        rival_ratio: Throughput of the winner over its, by the fastest runs or by medians, whichever is lower.
        rival_low: Lower end of the interval.
        rival_high: Upper end of the interval.
        baseline: Name of the baseline.
        baseline_latency_s: Seconds per inference of the baseline.
        best_latency_s: Seconds per inference of the winner; ``None`` where its ratio contradicts it.
        baseline_compile_s: Seconds of a compile of the baseline.
        best_compile_s: Seconds of a compile of the winner.
        pipeline: The winner.
        opt_level: Level of its build.
        required: Passes that its build always runs, with commas.
        disabled: Passes that its build never runs, with commas.
        config: Configuration of its build as JSON; empty for none.
        measured_at: Time of the last measurement, in ISO 8601 and UTC.
        outcome: Outcome of the run.
        reason: Why there is no confirmed gain.
    """

    job: str
    network: str
    batch: int | None
    objective: str
    device: str
    run: str
    finished: bool
    hardware: str | None = None
    toolchain: str | None = None
    tvm_version: str | None = None
    target: str | None = None
    gain_of: str | None = None
    improved: bool | None = None
    confirmed: bool | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    throughput_ratio: float | None = None
    throughput_low: float | None = None
    throughput_high: float | None = None
    compile_time_ratio: float | None = None
    compile_time_low: float | None = None
    compile_time_high: float | None = None
    sequence: str | None = None
    sequence_gain: float | None = None
    sequence_gain_low: float | None = None
    sequence_gain_high: float | None = None
    rival: str | None = None
    rival_ratio: float | None = None
    rival_low: float | None = None
    rival_high: float | None = None
    baseline: str | None = None
    baseline_latency_s: float | None = None
    best_latency_s: float | None = None
    baseline_compile_s: float | None = None
    best_compile_s: float | None = None
    pipeline: str | None = None
    opt_level: int | None = None
    required: str | None = None
    disabled: str | None = None
    config: str | None = None
    measured_at: str | None = None
    outcome: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class BatchResults(Record):
    """What the searches of a file found, as ``batch collect --json`` prints it.

    Attributes:
        file: The file.
        rows: The jobs.
        cross: The comparisons across devices.
    """

    file: str
    rows: tuple[FoundRow, ...]
    cross: tuple[CrossRow, ...]
