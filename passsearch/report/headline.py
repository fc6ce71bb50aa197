"""The first sentence of a result: what the user has now, in the metric where the gain is."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.objectives import COMPILE_TIME, THROUGHPUT, UNDECIDED, recorded_objective, verdict_outcome
from passsearch.report.formatting import format_ratio, lookup
from passsearch.report.sequence import sequence_sentence
from passsearch.report.verdict import baseline_phrase, compile_time_claim, undecided_text

SAME_SPEED = 0.98
"""Share of the baseline's throughput that a winner must certainly keep to be called as fast."""


def headline_text(document: Mapping[str, Any]) -> str:
    """Return what the winner gains over the baseline, or that nothing is gained or confirmed yet."""
    verdict, network = document.get("verdict") or {}, lookup(document, "model", "name") or "the network"
    if document.get("interrupted"):
        return f"{network}: the search was interrupted, so no gain is confirmed."
    if not verdict.get("confirmed"):
        return f"{network}: {_unconfirmed(document)}."
    compile_time = lookup(document, "ratios", COMPILE_TIME.name)
    objective, baseline = recorded_objective(verdict), baseline_phrase(document)
    if verdict.get("improved") and not objective.is_of_compiles:
        is_decided = _is_certainly_above(compile_time, 1.0) or _is_certainly_below(compile_time, 1.0)
        aside = f", and {compile_time_claim(compile_time, baseline)}" if is_decided else ""
        gain = objective.gain_predicate(format_ratio(verdict))
        return f"{network} {gain} than {baseline}{aside}.{sequence_sentence(document)}"
    speed = "" if verdict.get("disagreement") else _kept_speed(document, verdict)
    # Where compile time is the objective, the verdict judges it, by the noise floor and by the speed that may be lost.
    is_quicker = not objective.is_of_compiles and _is_certainly_above(compile_time, 1.0)
    if verdict.get("improved") or (speed and is_quicker):
        end = f" {speed}" if speed else ""
        # What a sequence gains in throughput says nothing here, unless it is this very binary.
        rival = sequence_sentence(document) if lookup(document, "sequence", "is_best") else ""
        return f"{network} {COMPILE_TIME.gain_predicate(format_ratio(compile_time))} than {baseline}{end}.{rival}"
    rejected = f"; {baseline} is the best" if document.get("rejected") and _is_baseline(document) else ""
    if verdict_outcome(verdict) == UNDECIDED:
        return f"{network} is {undecided_text(document, objective.title)}{rejected}."
    return f"{network}: no gain over {baseline} is shown{rejected}."


def _is_baseline(document: Mapping[str, Any]) -> bool:
    return bool(lookup(document, "best", "source", "kind") == "baseline")


def _unconfirmed(document: Mapping[str, Any]) -> str:
    """Return that nothing was measured, or the sequence that is recommended and what the search has read of it."""
    source, gain = lookup(document, "best", "source") or {}, lookup(document, "best", "ratio")
    if _is_baseline(document) and lookup(document, "space", "states_measured") == 1:
        return f"nothing but {baseline_phrase(document)} was measured, so no gain is known"
    if source.get("kind") != "sequence" or not gain or gain["ratio"] <= 1:
        return "no gain is confirmed"
    read = (
        f"the search read {format_ratio({'ratio': gain['ratio']})} times the throughput of {baseline_phrase(document)}"
    )
    return f"no gain is confirmed; {source['name']} of the catalog is recommended, of which {read}"


def _kept_speed(document: Mapping[str, Any], verdict: Mapping[str, Any]) -> str:
    """Return at which speed the winner runs, if it certainly keeps the baseline's; else an empty text."""
    throughput = lookup(document, "ratios", THROUGHPUT.name)
    if verdict.get("same_binary"):
        return "at the same speed (one binary)"
    is_denied = _is_certainly_below(lookup(document, "ratios", "throughput_of_medians"), SAME_SPEED)
    is_kept = _is_certainly_above(throughput, SAME_SPEED) and not is_denied
    return f"at {format_ratio(throughput)} of its speed" if is_kept else ""


def _is_certainly_below(ratio: Mapping[str, Any] | None, limit: float) -> bool:
    interval: Sequence[float | None] | None = lookup(ratio, "interval")
    return bool(interval) and interval[1] is not None and interval[1] < limit  # type: ignore[index]


def _is_certainly_above(ratio: Mapping[str, Any] | None, limit: float) -> bool:
    interval: Sequence[float | None] | None = lookup(ratio, "interval")
    return bool(interval) and interval[0] is not None and interval[0] > limit  # type: ignore[index]
