"""Profiles: where the time of an inference goes, by kernel and by block, for several pipelines side by side."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from passsearch.analysis import parts_of_calls
from passsearch.core import Candidate, Failure, timestamp
from passsearch.dialects.contract import RUNTIME, KernelCost
from passsearch.errors import UserError
from passsearch.evaluate import NetworkProfile, Session, WorkerEvaluator
from passsearch.results import (
    BlockTime,
    Build,
    Device,
    KernelCall,
    MeasuredPeaks,
    Profile,
    ProfiledKernel,
    ProfiledPipeline,
)
from passsearch.search.document import compiler_of, model_of
from passsearch.store import SCHEMA
from passsearch.worker import Peaks

UNOBSERVED = "between calls"
"""Time of an inference that no call took: the program of the runtime, and waiting for its threads."""

_log = logging.getLogger(__name__)


def profile_candidates(
    evaluator: WorkerEvaluator,
    candidates: Sequence[Candidate],
    *,
    peaks: Peaks | None,
    peaks_reason: str = "",
    energy: bool = False,
    progress: Callable[[str, int, int], None],
) -> Profile:
    """Return the times of all kernels of candidates, which run in turns in several processes.

    Args:
        evaluator: The network.
        candidates: The candidates; the first one is the baseline.
        peaks: What the device can do at most; ``None`` if that is unknown.
        peaks_reason: Why it is unknown.
        energy: True to read the energy of every kernel, where the device has a meter.
        progress: Callback; gets a text, the number of finished pipelines and the number of all.

    Raises:
        UserError: A candidate fails.
        EnvironmentFault: The machine fails, or the runtime does not tell kernels apart.
    """
    session = evaluator.session
    if session.cannot_run_reason:
        raise UserError(f"Nothing can be timed for `{session.target}`: {session.cannot_run_reason}.")
    progress("timing kernels", 0, len(candidates))
    profiles = evaluator.profile(candidates, energy=energy)
    if isinstance(profiles, Failure):
        raise profiles.as_error(f"The profile failed in {profiles.stage}: {profiles.reason}.")
    no_energy = _no_energy(session, is_asked_for=energy, has_cases=bool(evaluator.network.cases))
    rows = [
        _pipeline(evaluator, candidate, profile, peaks=peaks)
        for candidate, profile in zip(candidates, profiles, strict=True)
    ]
    return Profile(
        schema=SCHEMA,
        measured_at=timestamp(),
        model=model_of(session, evaluator.network),
        target=session.target,
        toolchain=compiler_of(session),
        device=Device.from_json(session.sensors.device),
        threads=session.threads,
        peaks=MeasuredPeaks(**asdict(peaks)) if peaks else None,
        peaks_reason=peaks_reason,
        unavailable={} if all(each.energy_j for each in profiles) else {"energy_j": no_energy},
        pipelines=tuple(rows),
    )


def _no_energy(session: Session, *, is_asked_for: bool, has_cases: bool) -> str:
    """Return why there is no energy of kernels."""
    if "energy_j" in session.sensors.unavailable:
        return session.sensors.unavailable["energy_j"]
    if not is_asked_for:
        return "read on request only, because every kernel runs alone for seconds (`--energy`)"
    return "the network has several cases" if has_cases else "this runtime does not run single kernels"


def _pipeline(
    evaluator: WorkerEvaluator, candidate: Candidate, profile: NetworkProfile, *, peaks: Peaks | None
) -> ProfiledPipeline:
    # The observer is called before and after every call. The shortest call of the runtime takes little beside that.
    observer_s = min((seconds for name, seconds in profile.calls if name.startswith(RUNTIME)), default=0.0)
    # By weights, so that they add up to the mean inference of several cases.
    calls = [
        (name, weight * max(0.0, seconds - observer_s), weight)
        for (name, seconds), weight in zip(profile.calls, profile.weights, strict=True)
    ]
    kernel_calls = [(name, seconds, weight) for name, seconds, weight in calls if not name.startswith(RUNTIME)]
    kernels = [(name, seconds) for name, seconds, _ in kernel_calls]
    runtime_s = sum(seconds for name, seconds, _ in calls if name.startswith(RUNTIME))
    kernels_s, whole_s = sum(seconds for _, seconds in kernels), min(profile.whole_s)
    network = evaluator.network
    # The summary is that of the first case; the calls are those of all cases.
    parts = (
        None if network.cases or profile.is_alone else parts_of_calls(network.summary, [name for name, _ in kernels])
    )
    return ProfiledPipeline(
        name=candidate.name,
        pipeline=str(candidate.pipeline),
        build=Build.from_json(candidate.build.to_json()),
        binary=profile.built.digest,
        whole_s=whole_s,
        whole_s_by_process=tuple(profile.whole_s),
        observer_s=observer_s,
        kernels_s=kernels_s,
        kernels_share=kernels_s / whole_s,
        rest={"runtime": runtime_s, UNOBSERVED: whole_s - kernels_s - runtime_s},
        is_alone=profile.is_alone,
        kernels=_kernel_rows(kernel_calls, profile, peaks),
        blocks=None if parts is None else _block_rows(kernels, parts),
        calls=tuple(
            KernelCall(name, seconds, parts[place] if parts else None) for place, (name, seconds) in enumerate(kernels)
        ),
    )


def _kernel_rows(
    calls: Sequence[tuple[str, float, float]], profile: NetworkProfile, peaks: Peaks | None
) -> tuple[ProfiledKernel, ...]:
    """Return a row for each kernel, the slowest first.

    Args:
        calls: Name, seconds by weight, and weight of every call.
        profile: What is known of the kernels: operations and bytes of one call, and energy.
        peaks: What the device can do at most.
    """
    by_name: dict[str, list[tuple[float, float]]] = {}
    for name, seconds, weight in calls:
        by_name.setdefault(name, []).append((seconds, weight))
    rows = [
        replace(_kernel_row(name, values, profile.costs.get(name), peaks), energy_j=profile.energy_j.get(name))
        for name, values in by_name.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _kernel_row(
    name: str, calls: Sequence[tuple[float, float]], cost: KernelCost | None, peaks: Peaks | None
) -> ProfiledKernel:
    total_s, weighted_calls = (sum(column) for column in zip(*calls, strict=True))
    row = ProfiledKernel(
        kernel=name,
        calls=len(calls),
        weighted_calls=weighted_calls,
        seconds=total_s,
        flops=cost.flops if cost else None,
        bytes=cost.bytes if cost else None,
        code_bytes=cost.code_bytes if cost else None,
        bound=None,
        roof_share=None,
    )
    if cost is None or peaks is None or not total_s:  # the observer takes longer than a very short kernel
        return row
    is_arithmetic = cost.flops / peaks.flops > cost.bytes / peaks.bytes_per_s
    least_s = weighted_calls * peaks.least_s(cost.flops, cost.bytes)
    return replace(row, bound="arithmetic" if is_arithmetic else "memory", roof_share=least_s / total_s)


def _block_rows(calls: Sequence[tuple[str, float]], parts: Sequence[str]) -> tuple[BlockTime, ...]:
    """Return the time and the number of calls of each part of the network, in order."""
    rows: dict[str, BlockTime] = {}
    for (_, seconds), part in zip(calls, parts, strict=True):
        row = rows.get(part, BlockTime(part, 0, 0.0))
        rows[part] = replace(row, calls=row.calls + 1, seconds=row.seconds + seconds)
    return tuple(rows.values())
