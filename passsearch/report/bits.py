"""Which candidates have equal bits, and what it costs to keep them, as text."""

from collections.abc import Iterator, Sequence

from passsearch.core import have_same_bits
from passsearch.report.rows import label
from passsearch.results import Candidate, Comparison, KeptBits, RunResult


def bits_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield what was kept where bits were to be kept, and which candidates have the winner's."""
    if result.same_bits is not None:
        yield "same bits", _cost_text(result.same_bits)
    own = result.best.outputs.bits if result.best.outputs else None
    if own is None:  # nothing ran, or a version that did not record it made the result
        return
    others = [trial for trial in result.trials if trial.binary != result.best.binary]
    equal = [each for each in others if each.outputs and have_same_bits(each.outputs.bits, own)]
    yield "bits", f"those of the winner in {len(equal)} of {len(others)} other binaries{_names(equal)}"


def comparison_bits_lines(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the pipelines whose outputs have equal bits, as groups."""
    groups: list[list[Candidate]] = []
    for row in comparison.measured:
        bits = row.outputs.bits if row.outputs else None
        if bits is None:
            return
        same = (group for group in groups if group[0].outputs and have_same_bits(group[0].outputs.bits, bits))
        if (group := next(same, None)) is None:
            groups.append([row])
        else:
            group.append(row)
    if len(comparison.measured) > 1:
        equal = [" = ".join(map(label, group)) for group in groups]
        yield "bits", f"{'; '.join(equal)} (pipelines with = between them have equal bits)"


def _names(candidates: Sequence[Candidate]) -> str:
    names = [each.name for each in candidates if each.name]
    return f" ({', '.join(names)})" if names else ""


def _cost_text(kept: KeptBits) -> str:
    refused = f"those of {kept.reference}; candidates refused for their bits alone: {kept.refused}"
    if kept.check_ratio is None:
        return f"{refused}; what that costs is unknown: {kept.unavailable.get('check_ratio')}"
    return (
        f"{refused}; the fastest of them ran {kept.check_ratio:.2g} times as fast as the winner in the check (the "
        "fastest of some inferences, not measured)"
    )
