"""Times one kernel under several schedules, each of which must compute what the first one does."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from passsearch.core import Failure
from passsearch.dialects.bits import bits_of
from passsearch.dialects.comparison import relative_deviation
from passsearch.dialects.contract import Array, Bridge, CompileError, KernelArguments, KernelExecutable, Module
from passsearch.measure import kernels
from passsearch.worker.device_turn import device_turn
from passsearch.worker.failure_kinds import failure_kind

Request: TypeAlias = Mapping[str, Any]
Schedule: TypeAlias = Callable[[Request], Module]
"""Function that returns the kernel as one step of a request schedules it."""

HALF_LIMIT = 2**-7
"""Largest deviation of a kernel's outputs in 16 bits, as a share of the largest: eight roundings of float16."""


def time_variants(
    bridge: Bridge, schedule: Schedule, request: Request, *, cores: Sequence[int]
) -> list[dict[str, Any]]:
    """Schedule one kernel in several ways, and time each that computes what the first does, if the first runs.

    Args:
        bridge: Builds and opens kernels.
        schedule: Schedules the kernel.
        request: The request ``variants``.
        cores: Cores that the process is pinned to.

    Returns:
        The answer for each step of the request.
    """
    arguments = bridge.kernel_arguments(request["cold_bytes"], request["device"])
    answers = [_variant(bridge, schedule, step, arguments) for step in request["steps"]]
    # Many settings lead to one schedule, which is built and timed once.
    distinct = {answer.digest: answer for answer in answers if not isinstance(answer, str)}
    build_s = _build_kernels(bridge, distinct)
    built = [executable for digest, executable in distinct.items() if not isinstance(build_s[digest], str)]
    refusal = answers[0] if isinstance(answers[0], str) else build_s[answers[0].digest]
    if isinstance(refusal, str):
        unknown = Failure("infra", "measure", "", f"the schedule to compare with does not run: {refusal}")
        return [{"reason": refusal}, *[{"failure": unknown.to_json()}] * (len(answers) - 1)]
    # Only now, because generating code takes far longer than running it, and other searches use the device then.
    with device_turn(request["device_lock"]):
        expected = built[0].outputs()
        has_halves = any(each.dtype.itemsize == 2 for each in expected)
        limit = max(HALF_LIMIT, request["limit"]) if has_halves else request["limit"]
        bits = {each.digest: _bits(each.outputs(), expected, limit=limit) for each in built}
        agreeing = [each for each in built if bits[each.digest]]
        samples, is_busy = kernels.time_variants(agreeing, kernels.VariantPlan(**request["plan"]), cores=cores)
    times = {executable.digest: runs for executable, runs in zip(agreeing, samples, strict=True)}
    busy = {"busy": True} if is_busy else {}
    return [_variant_answer(answer, times, build_s, bits) | busy for answer in answers]


def _variant(bridge: Bridge, schedule: Schedule, step: Request, arguments: KernelArguments) -> KernelExecutable | str:
    """Return a kernel as one pass schedules it, or the reason why that failed."""
    try:
        return bridge.open_kernel(schedule(step), arguments)
    except CompileError as error:
        return _reason(error)


def _build_kernels(bridge: Bridge, distinct: Mapping[str, KernelExecutable]) -> dict[str, float | str]:
    """Build kernels; return for each its share of the seconds that took, or the reason why it failed."""
    if not distinct:
        return {}
    start = time.perf_counter()
    try:
        bridge.build_kernels(list(distinct.values()))
    except CompileError as error:
        if len(distinct) == 1:
            return dict.fromkeys(distinct, _reason(error))
        # By halves, to find those that are refused.
        items, half = list(distinct.items()), len(distinct) // 2
        return _build_kernels(bridge, dict(items[:half])) | _build_kernels(bridge, dict(items[half:]))
    return dict.fromkeys(distinct, (time.perf_counter() - start) / len(distinct))


def _reason(error: CompileError) -> str:
    """Return why a schedule failed; what is no fault of the schedule, such as too little memory, is raised again."""
    if failure_kind(str(error)) != "compile_error":
        raise error
    return str(error)


def _variant_answer(
    variant: KernelExecutable | str,
    times: Mapping[str, Sequence[float]],
    build_s: Mapping[str, float | str],
    bits: Mapping[str, str],
) -> dict[str, Any]:
    """Return the fastest run of a variant, with all runs, the time that its code took to generate, and its bits."""
    if isinstance(variant, str):
        return {"reason": variant}
    seconds = build_s[variant.digest]
    if isinstance(seconds, str):
        return {"digest": variant.digest, "reason": seconds}
    about = {"digest": variant.digest, "build_s": round(seconds, 4)}
    if variant.digest not in times:
        return {**about, "reason": "other outputs than the first variant"}
    samples, about = times[variant.digest], {**about, "bits": bits[variant.digest]}
    return {**about, "seconds": min(samples), "samples_s": [float(f"{value:.4g}") for value in samples]}


def _bits(outputs: Sequence[Array], expected: Sequence[Array], *, limit: float) -> str:
    """Return the digest of a kernel's outputs, which are too large to keep; empty if they are not the expected ones."""
    return bits_of(outputs) if _agree(outputs, expected, limit=limit) else ""


def _agree(outputs: Sequence[Array], expected: Sequence[Array], *, limit: float) -> bool:
    """Return whether a kernel's outputs are near the expected ones; no integer may be a step off."""
    return all(
        relative_deviation(*pair) <= (limit if pair[1].dtype.kind == "f" else 0.0)
        for pair in zip(outputs, expected, strict=True)
    )
