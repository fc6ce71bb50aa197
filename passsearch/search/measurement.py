"""The measurement of one candidate, made in one place from its artifact, its samples and its consumption."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from passsearch.evaluate import Built, Conditions, Session
from passsearch.measure import Consumption, mean_ratio
from passsearch.results import Latency, Measurement, Memory, Reading

NOT_READ = "read over long windows, of the baseline and the winner only"
NOT_RUN = ("latency_s", "throughput_per_s", "memory_bytes.peak_rss")
"""Metrics that need a process which runs the artifact."""

NOT_COUNTED = "this TVM does not report the device's free memory, or another program gave back memory meanwhile"
NOT_REPORTED = "the device did not report it while the windows ran"


def make_measurement(
    built: Built,
    session: Session,
    *,
    processes: Sequence[Sequence[float]],
    compile_s: float,
    apply_s: float,
    batch: int,
    conditions: Conditions,
    consumption: Sequence[Consumption] = (),
) -> Measurement:
    """Return the measurement of an artifact; what could not be read is ``None`` with a reason.

    Args:
        built: The artifact.
        session: The session; its sensors state what cannot be read.
        processes: Seconds per inference, by timing process.
        compile_s: Seconds to apply and build.
        apply_s: Seconds to apply.
        batch: Samples per inference.
        conditions: Conditions while it was timed.
        consumption: Consumption in each repetition.
    """
    power_w, temperature_c, utilisation = (
        _over_repetitions([getattr(reading, name) for reading in consumption])
        for name in ("power_w", "temperature_c", "utilisation")
    )
    # The median, because a burst of other work in one window would move a mean.
    energies = [value for reading in consumption for value in reading.energy_j or ()]
    energy_j = median(energies) if energies else None
    readings = {
        "power_w": power_w,
        "temperature_c": temperature_c,
        "energy_j": energy_j,
        "utilisation": utilisation,
    }
    latency = latency_of([samples for samples in processes if samples])
    return Measurement(
        latency_s=latency,
        throughput_per_s=batch / latency.median if latency and latency.median else None,
        compile_s=compile_s,
        apply_s=apply_s,
        memory_bytes=Memory(plan=built.plan_bytes, peak_rss=built.peak_rss, device=built.device_bytes),
        artifact_bytes=built.bytes,
        launches=built.launches,
        power_w=power_w,
        energy_j=energy_j,
        temperature_c=temperature_c,
        utilisation=utilisation,
        unavailable=_unavailable(built, session, readings=readings, was_read=bool(consumption)),
        conditions=conditions,
    )


def _unavailable(built: Built, session: Session, *, readings: Mapping[str, object], was_read: bool) -> dict[str, str]:
    """Return the reason for every metric that is missing."""
    reason = session.cannot_run_reason or (NOT_REPORTED if was_read else NOT_READ)
    missing = dict.fromkeys([name for name, value in readings.items() if value is None], reason)
    reasons = {**missing, **session.sensors.unavailable}
    if session.cannot_run_reason:
        reasons |= dict.fromkeys(NOT_RUN, session.cannot_run_reason)
    if built.device_bytes is None:
        reasons.setdefault("memory_bytes.device", session.cannot_run_reason or NOT_COUNTED)
    if built.plan_bytes is None:
        reasons["memory_bytes.plan"] = "the compiler planned none"
    return reasons


def _over_repetitions(readings: Sequence[Mapping[str, float] | None]) -> Reading | None:
    """Combine repetitions: first start, last end, highest maximum, and the median of the medians."""
    # Some readings are missing where a sensor fails for a moment.
    available = [reading for reading in readings if reading is not None]
    if not available:
        return None
    return Reading(
        median=median(reading["median"] for reading in available),
        max=max(reading["max"] for reading in available),
        start=available[0].get("start"),
        end=available[-1].get("end"),
    )


def latency_of(processes: Sequence[Sequence[float]]) -> Latency | None:
    """Return the latency with the interval over processes; one process has no interval, because the next one differs.

    It is the mean of the processes' medians, which have in them what an ordinary place on the stack costs. Verdicts
    compare the fastest samples instead.
    """
    if not processes:
        return None
    latency = mean_ratio([math.log(median(samples)) for samples in processes])
    samples = tuple(value for process in processes for value in process)
    return Latency(
        median=latency.value,
        interval=(latency.interval.low, latency.interval.high) if len(processes) > 1 else None,
        samples=samples,
        n=len(samples),
        processes=len(processes),
    )
