"""The first sentence of a result: what the user has now, in the metric where the gain is."""

from passsearch.objectives import COMPILE_TIME, THROUGHPUT, UNDECIDED, recorded_objective, verdict_outcome
from passsearch.report.formatting import format_ratio, is_above, is_below
from passsearch.report.rivals import no_rival_note, rivals_sentence
from passsearch.report.sequence import sequence_sentence
from passsearch.report.verdict import baseline_phrase, compile_time_claim, undecided_text
from passsearch.results import RunResult, StatedRatio

SAME_SPEED = 0.98
"""Share of the baseline's throughput that a winner must certainly keep to be called as fast."""


def headline_text(result: RunResult) -> str:
    """Return what the winner gains over the user's other engines, over the baseline and over the catalog.

    The other engines come first: on a CPU, the compiler's own baseline is no engine that anybody would use.
    """
    if result.interrupted:
        return _gain(result)
    return f"{rivals_sentence(result)}{_gain(result)}{no_rival_note(result)}"


def _gain(result: RunResult) -> str:
    """Return what the winner gains over the baseline, or that nothing is gained or confirmed yet."""
    verdict, network = result.verdict, result.model.name or "the network"
    if result.interrupted:
        return f"{network}: the search was interrupted, so no gain is confirmed."
    if not verdict.confirmed:
        return f"{network}: {_unconfirmed(result)}."
    compile_time = result.ratio_of(COMPILE_TIME.name)
    objective, baseline = recorded_objective(verdict), baseline_phrase(result)
    if verdict.improved and not objective.is_of_compiles:
        is_decided = is_above(compile_time, 1.0) or is_below(compile_time, 1.0)
        aside = f", and {compile_time_claim(compile_time, baseline)}" if is_decided else ""
        gain = objective.gain_predicate(format_ratio(verdict.stated))
        return f"{network} {gain} than {baseline}{aside}.{sequence_sentence(result)}"
    speed = "" if verdict.disagreement else _kept_speed(result)
    # Where compile time is the objective, the verdict judges it, by the noise floor and by the speed that may be lost.
    is_quicker = not objective.is_of_compiles and is_above(compile_time, 1.0)
    if verdict.improved or (speed and is_quicker):
        end = f" {speed}" if speed else ""
        # What a sequence gains in throughput says nothing here, unless it is this very binary.
        rival = sequence_sentence(result) if result.sequence and result.sequence.is_best else ""
        return f"{network} {COMPILE_TIME.gain_predicate(format_ratio(compile_time))} than {baseline}{end}.{rival}"
    rejected = f"; {baseline} is the best" if result.rejected and result.best_is_baseline else ""
    if verdict_outcome(verdict) == UNDECIDED:
        return f"{network} is {undecided_text(result, objective.title)}{rejected}."
    return f"{network}: no gain over {baseline} is shown{rejected}."


def _unconfirmed(result: RunResult) -> str:
    """Return that nothing was measured, or the sequence that is recommended and what the search has read of it."""
    source, gain = result.best.source, result.best.ratio
    if result.best_is_baseline and result.space.states_measured == 1:
        return f"nothing but {baseline_phrase(result)} was measured, so no gain is known"
    if source is None or source.kind != "sequence" or gain is None or (gain.ratio or 0) <= 1:
        return "no gain is confirmed"
    read = f"the search read {format_ratio(StatedRatio(gain.ratio))} times the throughput of {baseline_phrase(result)}"
    return f"no gain is confirmed; {source.name} of the catalog is recommended, of which {read}"


def _kept_speed(result: RunResult) -> str:
    """Return at which speed the winner runs, if it certainly keeps the baseline's; else an empty text."""
    throughput = result.ratio_of(THROUGHPUT.name)
    if result.verdict.same_binary:
        return "at the same speed (one binary)"
    is_denied = is_below(result.ratio_of("throughput_of_medians"), SAME_SPEED)
    is_kept = is_above(throughput, SAME_SPEED) and not is_denied
    return f"at {format_ratio(throughput)} of its speed" if is_kept else ""
