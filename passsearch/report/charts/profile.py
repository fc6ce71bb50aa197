"""Charts of a profile: the time of every block, and the roofline."""

from collections.abc import Sequence

from passsearch.errors import UserError
from passsearch.report.charts.chart import ACCENT, BASELINE, BEST, OTHER, Axis, Chart, Point, Series
from passsearch.report.formatting import format_number, format_percent
from passsearch.results import BlockTime, Profile, ProfiledKernel, ProfiledPipeline

_COLOURS = (BASELINE, BEST, ACCENT)


def blocks_chart(profile: Profile) -> Chart:
    """Return the milliseconds of every part of the network, side by side for all pipelines.

    Raises:
        UserError: No pipeline shows blocks.
    """
    pipelines = [each for each in profile.pipelines if each.blocks]
    if not pipelines:
        raise UserError("The profile has no blocks: the network repeats none, or no kernels match its operators.")
    parts = list(dict.fromkeys(row.part for each in pipelines for row in each.blocks or ()))
    series = tuple(
        Series(_name(each), _bars(each.blocks or (), parts), "bars", _colour(place))
        for place, each in enumerate(pipelines)
    )
    return Chart("Blocks in one inference", Axis("milliseconds of an inference"), Axis("", labels=tuple(parts)), series)


def has_roofline(profile: Profile) -> bool:
    """Return whether the peaks of the device and the costs of some kernels are known."""
    return profile.peaks is not None and any(_points(each.kernels) for each in profile.pipelines)


def roofline_chart(profile: Profile) -> Chart:
    """Return operations a second over operations per byte for every kernel, below what the device can do at most.

    Raises:
        UserError: The peaks of the device or the costs of all kernels are unknown.
    """
    peaks = profile.peaks
    if peaks is None or not has_roofline(profile):
        reason = profile.peaks_reason or "the compiler does not show what its kernels have to do"
        raise UserError(f"There is no roofline: {reason}.")
    points = [(each, _points(each.kernels)) for each in profile.pipelines]
    intensities = [point.x for _, found in points for point in found]
    ridge = peaks.flops / peaks.bytes_per_s
    ends = (min(*intensities, ridge) / 2, ridge, max(*intensities, ridge) * 2)
    roof = tuple(Point(x, min(peaks.flops, x * peaks.bytes_per_s) / 1e9) for x in ends)
    kernels = (Series(_name(each), found, colour=_colour(place)) for place, (each, found) in enumerate(points))
    return Chart(
        "Kernels below the roof of this machine",
        Axis("operations per byte of arguments", is_log=True),
        Axis("GFLOP/s", is_log=True),
        (Series("measured peaks", roof, "line", OTHER), *kernels),
    )


def _points(rows: Sequence[ProfiledKernel]) -> tuple[Point, ...]:
    """Return a point for each kernel that computes something."""
    return tuple(
        Point(row.flops / row.bytes, row.weighted_calls * row.flops / row.seconds / 1e9, _text(row))
        for row in rows
        if row.flops and row.bytes
    )


def _text(row: ProfiledKernel) -> str:
    share = "" if row.roof_share is None else f", {format_percent(row.roof_share)} of the roof"
    return f"{row.kernel}: {format_number(1e3 * row.seconds)} ms{share}"


def _bars(rows: Sequence[BlockTime], parts: Sequence[str]) -> tuple[Point, ...]:
    return tuple(
        Point(1e3 * row.seconds, parts.index(row.part), f"{row.part}: {format_number(1e3 * row.seconds)} ms")
        for row in rows
    )


def _name(pipeline: ProfiledPipeline) -> str:
    return f"{pipeline.name or pipeline.pipeline}: {format_number(1e3 * pipeline.whole_s)} ms"


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]
