"""What a winner gains over the best sequence of the catalog, which a user has without a search."""

from passsearch.report.formatting import format_floor, format_ratio
from passsearch.results import RunResult


def sequence_text(result: RunResult) -> str:
    """Return what the search gained, in words; empty for a run that measured no sequence."""
    sequence = result.sequence
    if sequence is None:
        return ""
    name = f"{sequence.name}, {_rank(sequence.of)}"
    if sequence.is_best:
        return f"none: the winner is the same binary as {name}"
    gain = f"{format_ratio(sequence.gain)} times the throughput of {name}"
    if not sequence.is_timed:
        return f"not confirmed: {gain}, in the search's own measurement"
    if sequence.improved:
        return gain
    # An interval above 1 is no gain where the noise floor is higher.
    noise = result.verdict.noise_floor
    return f"none is shown: {gain}" + ("" if noise is None else f" (noise floor {format_floor(noise)})")


def sequence_sentence(result: RunResult) -> str:
    """Return what the search gained as a sentence after that on the baseline; empty where it is not confirmed."""
    sequence = result.sequence
    if sequence is None:
        return ""
    if sequence.is_best:
        return f" The winner is the same binary as {sequence.name} of the catalog."
    if not sequence.is_timed:
        return ""
    best = f"{sequence.name}, the best sequence of the catalog"
    if not sequence.improved:
        return f" No gain over {best}, is shown: {format_ratio(sequence.gain)} times its throughput."
    return f" It runs {format_ratio(sequence.gain)} times faster than {best}."


def _rank(number: int) -> str:
    if number == 1:
        return "the only sequence of the catalog that was measured"
    return f"the fastest of {number} sequences of the catalog that were measured"
