"""Numbers, intervals and verdicts in words; what is missing or ``null`` is a dash."""

from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "–"


def at(document: Mapping[str, Any] | None, *path: str) -> Any:
    """What stands at a path of keys, ``None`` if any of it is missing or ``null``."""
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def count(value: int | None) -> str:
    """A whole number."""
    return MISSING if value is None else str(value)


def number(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits, never in powers of ten."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else _leading_zeros(abs(value))
    return f"{value:.{max(0, digits - whole)}f}"


def _leading_zeros(value: float) -> int:
    zeros = 0
    while value < 0.1 and zeros < 6:
        value, zeros = value * 10, zeros + 1
    return -zeros


def spread(value: float | None, interval: Sequence[float | None] | None, *, decimals: int) -> str:
    """``value [low, high]``, all three with so many decimals."""
    if value is None:
        return MISSING
    ends = [MISSING if end is None else f"{end:.{decimals}f}" for end in interval or ()]
    return f"{value:.{decimals}f}" + (f" [{', '.join(ends)}]" if ends else "")


def ratio(document: Mapping[str, Any] | None) -> str:
    """A ratio with its interval, finer the nearer it is to 1."""
    value = at(document, "ratio")
    decimals = 3 if value is None or value < 2 else 2 if value < 10 else 1
    return spread(value, at(document, "interval"), decimals=decimals)


def latency_ms(measured: Mapping[str, Any] | None) -> str:
    """Median latency and its interval in milliseconds."""
    middle, interval = at(measured, "latency_s", "median"), at(measured, "latency_s", "interval")
    if middle is None:
        return MISSING
    ends = [None if end is None else end * 1e3 for end in interval or ()]
    return spread(middle * 1e3, ends, decimals=3 if middle < 1e-2 else 2 if middle < 1 else 1)


def megabytes(value: float | None) -> str:
    """Bytes as 10^6 bytes."""
    return number(None if value is None else value / 1e6)


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return MISSING if value is None else f"{round(value * 100, 1):g} %"


def passes_text(candidate: Mapping[str, Any] | None) -> str:
    """A pipeline and its build level as people read them."""
    level = at(candidate, "build", "opt_level")
    disabled = at(candidate, "build", "disabled")
    without = f" without {', '.join(disabled)}" if disabled else ""
    return f"{at(candidate, 'pipeline') or '(no explicit pass)'}, then build at opt_level={count(level)}{without}"


def verdict_text(document: Mapping[str, Any]) -> str:
    """The outcome in one plain sentence."""
    objective = at(document, "verdict", "objective") or "throughput"
    parts = [_claim(document, objective)]
    if objective != "compile_time":
        parts.append(_compile_claim(at(document, "ratios", "compile_time"), _name(document)))
    elif at(document, "ratios", "throughput"):
        parts.append(f"throughput {ratio(at(document, 'ratios', 'throughput'))} times that of {_name(document)}")
    return "; ".join(part for part in parts if part)


def _claim(document: Mapping[str, Any], objective: str) -> str:
    verdict = document.get("verdict") or {}
    value, what = ratio(verdict), objective.replace("_", " ")
    noise = verdict.get("noise_floor")
    floor = "" if noise is None else f" (noise floor {percent(noise)})"
    if not verdict.get("confirmed"):
        reason = verdict.get("reason") or "no reason given"
        return f"not confirmed: {value} in {what} by the search's own measurement ({reason})"
    if not verdict.get("interval"):
        return f"no claim: {value} in {what} by the search's own measurement, which has no interval"
    if verdict.get("same_binary") and objective != "compile_time":
        return f"the very binary that {_name(document)} makes, so its {what} too (measured: {value}{floor})"
    if verdict["interval"][1] < 1:
        return f"worse in {what} than {_name(document)}: {value}{floor}"
    if not verdict.get("improved"):
        return f"no significant improvement in {what}: {value}{floor}"
    if objective == "compile_time":
        return f"improved: compiles {value} times faster than {_name(document)}"
    better = "higher" if objective == "throughput" else "lower"
    return f"improved: {value} times {better} {what} than {_name(document)}{floor}"


def _compile_claim(found: Mapping[str, Any] | None, baseline: str) -> str:
    interval, value = at(found, "interval"), at(found, "ratio")
    if value is None:
        return ""
    if not interval or None in interval:
        return f"compile time by one compile each: {ratio(found)} times faster"
    if interval[0] > 1:
        return f"compiles {ratio(found)} times faster"
    if interval[1] < 1:
        slower = {"ratio": 1 / value, "interval": [1 / interval[1], 1 / interval[0]]}
        return f"takes {ratio(slower)} times as long to compile"
    return f"compile time as {baseline}'s: {ratio(found)}"


def _name(document: Mapping[str, Any]) -> str:
    name = at(document, "baseline", "name")
    return str(name) if name else "the baseline"
