"""An explored space and a checked certificate as text for a terminal."""

from collections.abc import Sequence

from passsearch.report.formatting import counted, import_text
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import CertificateCheck, ExploredSpace, PassPair, Reference

LIMITS = {
    "seconds": "time limit reached",
    "states": "limit of states reached",
    "depth": "limit of the sequence length reached",
    # No limit was reached and no edge is left, yet some failed for reasons of the machine, not of the pass.
    "closed": "some passes could not be applied because the machine failed",
}
MAX_PARTNERS = 8
"""Most passes that are listed in one cell of the table."""
MAX_PAIRS = 8
"""Most pairs of passes that are listed in a line."""


def space_text(space: ExploredSpace, *, width: int | None = None) -> str:
    """Return the size of an explored space, and what it shows about the passes.

    Args:
        space: The space.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    lines = [*summary_lines(space), *closure_lines(space)]
    summary = "\n".join(paragraph(title, text, width=width) for title, text in lines)
    return "\n\n".join(part for part in (summary, _pass_table(space, width)) if part)


def certificate_check_text(check: CertificateCheck, *, width: int | None = None) -> str:
    """Return whether a certificate holds, and every edge that contradicts it.

    Args:
        check: The outcome.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    if check.holds:
        checked = f"{check.checked} of {check.edges} edges applied again, all as certified"
        space = f"{counted(check.states, 'state')}, {'closed' if check.closed else 'not closed'}"
        return paragraph("the certificate holds", f"{checked}; {space}", width=width)
    return "\n".join(paragraph("does not hold", problem, width=width) for problem in check.problems)


def summary_lines(space: ExploredSpace) -> list[tuple[str, str]]:
    """Return titles and texts on an explored space: its size, and what the passes did in it."""
    network = f"{space.model.source}, TVM {space.toolchain.tvm_version}, {space.target}"
    applied = f"{space.tried} passes applied in {space.seconds:.0f} s, {_cache_note(space)}"
    return [
        ("network", network),
        *_import_lines(space.reference),
        ("space", _size(space)),
        ("sequences", _sequences(space)),
        ("this call", applied),
        ("passes left out (with them the space never closes)", ", ".join(space.left_out) or "none"),
        ("passes that change nothing here", ", ".join(space.idle) or "none"),
        ("nondeterministic passes", ", ".join(space.unsteady) or "none"),
        ("passes that crashed, timed out or ran out of memory", ", ".join(space.given_up) or "none"),
        ("passes that change the IR again when repeated", ", ".join(space.not_idempotent) or "none"),
        ("pairs that give the same IR in both orders", _pairs(space.commuting)),
    ]


def _import_lines(reference: Reference | None) -> list[tuple[str, str]]:
    """Return what proves the import; nothing for a space from before it was recorded."""
    return [] if reference is None else [("import", import_text(reference))]


def closure_lines(space: ExploredSpace) -> list[tuple[str, str]]:
    """Return what only a closed space can say, or which part of an open space is closed."""
    lines = []
    if space.barriers is not None:
        lines.append(("passes that can never act again after another pass", _barriers(space.barriers)))
    if not space.closed:
        part = space.closed_part
        lines.append(("closed part of the space", f"{counted(part.states, 'state')} with {', '.join(part.steps)}"))
    return lines


def _size(space: ExploredSpace) -> str:
    edges = f"{space.edges} edges ({space.failed} failed)"
    size = f"{counted(space.states, 'state')}, {edges}, depth {space.depth}"
    if space.closed:
        # What a crashed pass would have produced is unknown, so the claim must exclude sequences that crash.
        excluded = " that does not crash, time out or run out of memory" if space.given_up else ""
        return f"closed: {size}; no sequence of these passes{excluded}, however long, makes another IR"
    return f"not closed ({LIMITS[space.ended]}): {size}; {space.unfinished} states have untried edges"


def _cache_note(space: ExploredSpace) -> str:
    if space.remembered:
        return "stored in the fact cache for later runs"
    return "not stored in the fact cache (because of --fresh, or because another run on this network is writing to it)"


def _sequences(space: ExploredSpace) -> str:
    # Every state is reached within `depth` passes, so longer sequences only repeat IRs and are not worth counting.
    row = space.sequences[space.depth]
    valid = sum(shorter.valid for shorter in space.sequences[: space.depth + 1])
    longest = f"{row.number:.3g} of {row.length} passes, {row.valid:.3g} of them valid"
    return f"{longest}; {valid:.3g} valid ones of at most {row.length} passes"


def _pairs(pairs: Sequence[Sequence[str]]) -> str:
    """Return the pairs; of many, as open spaces have, their number and the first."""
    shown = "; ".join(f"{first} and {second}" for first, second in pairs[:MAX_PAIRS]) or "none"
    if len(pairs) <= MAX_PAIRS:
        return shown
    return f"{len(pairs)}, for example {shown}; all are in `commuting` with --json"


def _barriers(pairs: Sequence[Sequence[str]]) -> str:
    """Return, for every pass, the passes that change nothing any more after it."""
    by_first: dict[str, list[str]] = {}
    for first, second in pairs:
        by_first.setdefault(first, []).append(second)
    return "; ".join(f"after {first}: {', '.join(seconds)}" for first, seconds in by_first.items()) or "none"


def _pass_table(space: ExploredSpace, width: int) -> str:
    titles = ("pass", "new states", "enables", "disables")
    return table(titles, pass_rows(space), width=width, right=("new states",))


def pass_rows(space: ExploredSpace) -> list[tuple[str, str, str, str]]:
    """Return a row per pass with an effect: states it reached first, passes it enables, passes it disables."""
    new_states = space.new_states
    return [
        (
            step,
            str(new_states.get(step, 0)),
            _partners(space.enabling, step),
            _partners(space.disabling, step),
        )
        for step in space.steps
        if step not in space.idle
    ]


def _partners(pairs: Sequence[PassPair], step: str) -> str:
    partners = [pair.second for pair in pairs if pair.first == step]
    more = f", {len(partners) - MAX_PARTNERS} more" if len(partners) > MAX_PARTNERS else ""
    return ", ".join(partners[:MAX_PARTNERS]) + more
