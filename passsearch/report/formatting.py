"""Numbers, intervals and pipelines as text; a missing or ``null`` value becomes a dash."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from passsearch.core import printable
from passsearch.results import Build, Interval, Latency, NamedPipeline, Record, Reference, StatedRatio, says_nothing

MISSING = "–"

MOST_FLOOR = 1.0
"""Largest noise floor that is printed; results of earlier versions have floors of 1e10 %."""


def lookup(document: Mapping[str, Any] | Record | None, *keys: str) -> Any:
    """Return the value at a path of keys, ``None`` if a key of the path is missing or ``null``."""
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
    return value


def html_text(text: str) -> str:
    """Return a text as HTML that shows exactly its characters; what does not print is written out."""
    return escape(printable(text, keep="\n"))


def format_count(value: int | None) -> str:
    """Return a whole number as text."""
    return MISSING if value is None else str(value)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun; the plural only has to be given where it is irregular."""
    word = noun if number == 1 else plural or f"{noun}s"
    return f"{number} {word}"


def format_number(value: float | None, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, without an exponent."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    # Not the format code `g`: it writes 1234567 as 1.23e+06, and columns of such numbers are hard to compare.
    integer_digits = len(str(int(abs(value)))) if abs(value) >= 1 else -_leading_zeros(abs(value))
    return f"{value:.{max(0, digits - integer_digits)}f}"


def _leading_zeros(value: float) -> int:
    """Return the number of zeros after the decimal point, at most 6."""
    zeros = 0
    while value < 0.1 and zeros < 6:
        value, zeros = value * 10, zeros + 1
    return zeros


def format_interval(value: float | None, interval: Sequence[float | None] | None, *, decimals: int) -> str:
    """Return ``value [low, high]``, all with the same number of decimals, or that the interval is too wide."""
    if value is None:
        return MISSING
    if says_nothing(interval):
        return f"{value:.{decimals}f} [too wide]"
    ends = [MISSING if end is None else f"{end:.{decimals}f}" for end in interval or ()]
    return f"{value:.{decimals}f}" + (f" [{', '.join(ends)}]" if ends else "")


def format_ratio(ratio: StatedRatio | Mapping[str, Any] | None) -> str:
    """Return a ratio with its interval, if it has one; ratios below 2 get three decimals."""
    if not isinstance(ratio, StatedRatio):
        ratio = StatedRatio.from_json({"ratio": None, **(ratio or {})})
    value, interval = ratio.ratio, ratio.interval
    # An artifact is as fast as itself, without any measurement.
    if interval and interval[0] == interval[1] == value:
        interval = None
    # Typical gains are a few percent, so a ratio near 1 needs a resolution of 0.1 %; one of 20 does not.
    decimals = 3 if value is None or value < 2 else 2 if value < 10 else 1
    return format_interval(value, interval, decimals=decimals)


def is_above(ratio: StatedRatio | None, limit: float) -> bool:
    """Return whether the whole interval of a ratio is above a limit."""
    low = ratio.interval[0] if ratio and ratio.interval else None
    return low is not None and low > limit


def is_below(ratio: StatedRatio | None, limit: float) -> bool:
    """Return whether the whole interval of a ratio is below a limit."""
    high = ratio.interval[1] if ratio and ratio.interval else None
    return high is not None and high < limit


def is_beyond(interval: Interval, other: Interval) -> bool:
    """Return whether an interval is above all of another one."""
    return interval[0] is not None and other[1] is not None and interval[0] > other[1]


def format_latency_ms(latency: Latency | None) -> str:
    """Return the median latency and its interval in milliseconds."""
    if latency is None or latency.median is None:
        return MISSING
    median_s, interval = latency.median, latency.interval
    # Three decimals below 10 ms, two below 1 s: a difference of 0.1 % stays visible.
    ends = [None if end is None else end * 1e3 for end in interval or ()]
    return format_interval(median_s * 1e3, ends, decimals=3 if median_s < 1e-2 else 2 if median_s < 1 else 1)


def format_megabytes(size_bytes: float | None) -> str:
    """Return a size in units of 10^6 bytes."""
    return format_number(None if size_bytes is None else size_bytes / 1e6)


def format_percent(share: float | None) -> str:
    """Return a share (0 to 1) as a percentage."""
    return MISSING if share is None else f"{round(share * 100, 1):g} %"


def format_floor(share: float | None) -> str:
    """Return a noise floor; one that too few processes give is no estimate, and is not printed."""
    return "not estimated" if share is None or share > MOST_FLOOR else format_percent(share)


def format_time(text: str) -> str:
    """Return a time in ISO 8601 and UTC with minutes, as ``2026-11-24 18:35 UTC``."""
    return f"{text[:16].replace('T', ' ')} UTC"


def format_pipeline(candidate: NamedPipeline) -> str:
    """Return a candidate's pipeline and build options in one line."""
    return f"{candidate.pipeline or '(no explicit pass)'}, then build at {format_build(candidate.build)}"


def format_build(build: Build) -> str:
    """Return the options of a build."""
    without = f" without {', '.join(build.disabled)}" if build.disabled else ""
    return f"opt_level={build.opt_level}{without}"


def import_text(reference: Reference) -> str:
    """Return what proves that a network is imported as its source has it, or that nothing does."""
    return f"proven by {reference.runtime}" if reference.runtime else f"unproven: {reference.reason}"
