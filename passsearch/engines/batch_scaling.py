"""How much of a larger batch's time is not saved: the friction coefficient of an engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from passsearch.measure import mean_interval


def friction_coefficient(times_s: Mapping[int, Sequence[float]]) -> dict[str, Any] | None:
    """Return the friction coefficient with its interval.

    The coefficient is the slope of the logarithm of the time of one inference over the logarithm of the batch size,
    fitted by least squares in every process: 0 if a larger batch takes no longer, 1 if every item takes as long as in a
    batch of one, above 1 if items of a larger batch take longer.

    Args:
        times_s: Seconds of one inference by batch size, one value for each process; process N of every batch size ran
            in one turn.

    Returns:
        ``value``, ``interval`` (Student's t over the processes; ``None`` for one) and ``by_process``. ``None`` for
        fewer than two batch sizes.
    """
    slopes = slopes_by_process(times_s)
    return None if slopes is None else {**mean_with_interval(slopes), "by_process": slopes}


def removed_share(
    baseline: Mapping[int, Sequence[float]], engine: Mapping[int, Sequence[float]]
) -> dict[str, Any] | None:
    """Return the share of the baseline's friction that an engine removes: ``1 - engine / baseline``, with its interval.

    ``None`` for fewer than two batch sizes, or where the baseline's friction is not certainly above 0.
    """
    base, own = friction_coefficient(baseline), slopes_by_process(engine)
    if base is None or own is None or not base["interval"] or base["interval"][0] <= 0:
        return None
    # A process without friction has no share; to leave it out would favour the others.
    if min(base["by_process"]) <= 0:
        return None
    return mean_with_interval([1 - slope / first for slope, first in zip(own, base["by_process"], strict=False)])


def friction_rows(rows: Sequence[Mapping[str, Any]], *, engines: Sequence[str], baseline: str) -> dict[str, Any]:
    """Return the friction of every engine that has a result at all batch sizes, and the share that it removes.

    Args:
        rows: Rows of all engines and batch sizes.
        engines: Names of the engines.
        baseline: The engine whose friction is removed.
    """
    times = {name: _times_s(rows, name) for name in engines}
    found = {name: friction_coefficient(own) for name, own in times.items() if own is not None}
    base = times.get(baseline)
    return {
        name: {**document, "removed": removed_share(base, times[name] or {}) if base and name != baseline else None}
        for name, document in found.items()
        if document is not None
    }


def _times_s(rows: Sequence[Mapping[str, Any]], engine: str) -> dict[int, Sequence[float]] | None:
    own = [row for row in rows if row["engine"] == engine]
    return None if any("failure" in row for row in own) else {row["batch"]: row["process_fastest_s"] for row in own}


def slopes_by_process(times_s: Mapping[int, Sequence[float]]) -> list[float] | None:
    """Return the slope of every process that has all batch sizes; ``None`` for fewer than two batch sizes."""
    if len(times_s) < 2:
        return None
    sizes = np.log(list(times_s))
    turns = zip(*times_s.values(), strict=False)
    return [float(np.polyfit(sizes, np.log(turn), 1)[0]) for turn in turns]


def mean_with_interval(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean as ``value`` and its interval by Student's t; one value has none."""
    mean, interval = mean_interval(values)
    return {"value": mean, "interval": interval.to_json() if len(values) > 1 else None}
