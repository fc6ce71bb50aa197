"""What a winner gains over the best sequence of the catalog, which a user has without a search."""

from passsearch.report.formatting import format_floor, format_number, format_ratio
from passsearch.report.verdict import verdict_text
from passsearch.results import BestOfCatalog, RunResult


def sequence_text(result: RunResult) -> str:
    """Return what the search gained, in words; empty for a run that measured no sequence."""
    sequence = result.sequence
    if sequence is None:
        return ""
    if sequence.is_best:
        return f"none: the winner is the same binary as {_named(sequence)}"
    gain = _compared(sequence)
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


def search_sentence(result: RunResult) -> str:
    """Return what a search added to the best sequence of the catalog, as a sentence."""
    search, sequence = f"A search of {format_number(result.seconds['total'])} s", result.sequence
    if sequence is None:
        return f"{search}: {verdict_text(result)}."
    if sequence.is_best:
        return f"{search} added nothing: its winner is the same binary as {_named(sequence)}."
    if not sequence.is_timed:
        return f"{search} confirmed no gain: {_compared(sequence)}, in its own measurement."
    return f"{search} added {'a gain' if sequence.improved else 'nothing that is certain'}: {_compared(sequence)}."


def _compared(sequence: BestOfCatalog) -> str:
    return f"{format_ratio(sequence.gain)} times the throughput of {_named(sequence)}"


def _named(sequence: BestOfCatalog) -> str:
    if sequence.of == 1:
        return f"{sequence.name}, the only sequence of the catalog that was measured"
    return f"{sequence.name}, the fastest of {sequence.of} sequences of the catalog that were measured"
