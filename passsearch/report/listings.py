"""Text for the terminal of ``doctor``, ``audit``, ``toolchain``, ``analyze`` and ``catalog``."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.catalog import NEVER
from passsearch.core import UNKNOWN_CLASS
from passsearch.objectives import IMPROVED, verdict_outcome
from passsearch.report.formatting import MISSING, counted, format_megabytes, format_ratio, format_time, lookup
from passsearch.report.recommended import recommendation_line
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import (
    Audit,
    CatalogCheck,
    CheckedEntry,
    CheckedSequence,
    NetworkRecommendation,
    PassRelation,
    PassRelations,
    Verdict,
)

CHECK_TITLES = ("", "what", "result")

PARAMETER_TITLES = ("parameter", "type", "default", "values searched", "meaning")

PAPER_NOTE = (
    "Level is the lowest -O at which TVM allows the pass. Paper lists its columns in table 4 of CF'22: BL is the "
    "paper's baseline, AD are additional passes, and the others are architecture classes."
)

RELATION_TITLES = ("relation", "pass", "states", "smallest network")

# The words for a pass that is the first of the two, and for one that is the second.
_RELATIONS = {
    "precedes": ("must precede", "must follow"),
    "may precede": ("may fail unless before", "may fail unless after"),
    "enables": ("enables", "enabled by"),
    "disables": ("disables", "disabled by"),
    "commutes": ("commutes with", "commutes with"),
    "idempotent": ("idempotent", "idempotent"),
}

NEAREST = 3
"""Number of classes of which an analysis says what a network of none lacks for them."""

# `null` is neither: something optional, such as a power meter, that this machine does not have.
_STATUS = {True: "ok", False: "missing", None: "–"}


def findings_text(findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the doctor's findings as a table, and below it what to do about them."""
    width = text_width()
    rows = [(_STATUS[finding["ok"]], str(finding["name"]), str(finding["detail"])) for finding in findings]
    parts = [table(("", "what", "result"), rows, width=width)]
    for heading, is_optional in (("to do:", False), ("optional:", True)):
        remedies = [
            paragraph(str(finding["name"]), str(finding["remedy"]), width=width)
            for finding in findings
            if finding["remedy"] and (finding["ok"] is None) == is_optional
        ]
        parts += ["\n".join([heading, *remedies])] if remedies else []
    return "\n\n".join(parts)


def audit_text(audit: Audit) -> str:
    """Return an audit's checks as a table, the ratios measured again, and the verdict."""
    refusal = f"refused: {audit.refusal.name}: {audit.refusal.detail}" if audit.refusal else ""
    measured = ", ".join(f"{name} {ratio}" for name, ratio in audit_ratios(audit))
    lines = [("date", format_time(audit.measured_at)), *([("measured", measured)] if measured else [])]
    lines.append(("verdict", refusal or "signed off"))
    checks_table = table(CHECK_TITLES, check_cells(audit), width=text_width())
    outcome = "\n".join(paragraph(title, text, width=text_width()) for title, text in lines)
    return f"{checks_table}\n\n{outcome}"


def check_cells(audit: Audit) -> list[tuple[str, str, str]]:
    """Return the cells under ``CHECK_TITLES`` of every check."""
    return [("ok" if check.ok else "no", check.name, check.detail) for check in audit.checks]


def audit_ratios(audit: Audit) -> list[tuple[str, str]]:
    """Return metric and value of every ratio that an audit measured again."""
    return [(name.replace("_", " "), format_ratio(ratio)) for name, ratio in (audit.ratios or {}).items()]


def toolchains_text(toolchains: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with one row per toolchain."""
    if not toolchains:
        return "No toolchain yet. Run: passsearch toolchain install DIALECT"
    titles = ("name", "dialect", "TVM", "LLVM", "CUDA", "Python", "interpreter")
    keys = ("name", "dialect", "tvm_version", "llvm_version", "cuda", "python_version", "python")
    rows = [[cell_text(toolchain.get(key)) for key in keys] for toolchain in toolchains]
    return table(titles, rows, width=text_width())


def zoo_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the built-in networks."""
    titles = ("zoo:", "network", "inputs at batch 1")
    cells = [(row["name"], row["summary"], row["inputs"]) for row in rows]
    return table(titles, cells, width=text_width(), whole=titles[:1])


def examples_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the example files."""
    titles = ("file", "content")
    cells = [(row["name"], row["summary"]) for row in rows]
    return table(titles, cells, width=text_width(), whole=titles[:1])


def runs_text(document: Mapping[str, Any]) -> str:
    """Return a table with one row per run, and their size together."""
    runs = document["runs"]
    if not runs:
        return f"No run in {document['folder']}. Run: passsearch tune MODEL"
    titles = ("network", "toolchain", "measured", "outcome", "MB", "folder")
    rows = [
        (
            cell_text(lookup(run, "model", "source")),
            cell_text(lookup(run, "toolchain", "name")),
            format_time(run["measured_at"]),
            _run_outcome(run),
            format_megabytes(run["bytes"]),
            Path(run["folder"]).name,
        )
        for run in runs
    ]
    size = format_megabytes(sum(run["bytes"] for run in runs))
    clean = f"delete old ones: passsearch runs clean {shlex.quote(document['folder'])} --older-than DAYS"
    total = f"{len(runs)} in {document['folder']}, {size} MB; {clean}"
    return f"{table(titles, rows, width=text_width(), right=('MB',))}\n\n{paragraph('runs', total, width=text_width())}"


def _run_outcome(run: Mapping[str, Any]) -> str:
    if not run.get("verdict"):
        return "no result yet"
    return run_outcome(Verdict.from_json(run["verdict"]), is_interrupted=bool(run.get("interrupted")))


def run_outcome(verdict: Verdict, *, is_interrupted: bool) -> str:
    """Return the outcome of a run in some words."""
    if is_interrupted:
        return "interrupted"
    if not verdict.confirmed:
        return "not confirmed"
    outcome = verdict_outcome(verdict)
    return f"{verdict.objective} {format_ratio(verdict.stated)}" if outcome == IMPROVED else outcome


def analysis_text(document: Mapping[str, Any], *, has_all: bool = False) -> str:
    """Return a network's operators, features, classes with evidence, and the passes with the reason for each.

    Args:
        document: An analysis, as ``passsearch analyze --json`` prints it.
        has_all: True to list the passes that are searched on no network, too.
    """
    width = text_width()
    operators = ", ".join(f"{count} {kind}" for kind, count in (document.get("operators") or {}).items())
    lines = [("network", cell_text(document.get("model"))), ("operators", operators or MISSING)]
    lines += [line for label in document.get("classes") or [] for line in _class_lines(label)]
    if stated := document.get("recommendation"):
        lines.append(("recommended", recommendation_line(NetworkRecommendation.from_json(stated))))
    summary = "\n".join(paragraph(title, text, width=width) for title, text in lines)
    features = [feature_row(name, feature) for name, feature in (document.get("fingerprint") or {}).items()]
    parts = [summary, table(("feature", "count", "first", "detail"), features, width=width, right=("count",))]
    for title, key in (("pass in the search", "passes"), ("pass not in the search", "dropped")):
        decisions = [(str(decision["name"]), str(decision["reason"])) for decision in document.get(key) or []]
        shown = [row for row in decisions if has_all or not row[1].startswith(NEVER)]
        parts.append(table((title, "reason"), shown, width=width))
        if hidden := len(decisions) - len(shown):
            passes = counted(hidden, "further pass", "further passes")
            parts.append(f"{passes} of the catalog: never searched (--all lists them)")
    return "\n\n".join(parts)


def _class_lines(label: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield why a network belongs to a class, or what it lacks for the nearest ones where it fits none."""
    title, evidence = f"class {label['name']}", label["evidence"]
    if label["name"] != UNKNOWN_CLASS or len(evidence) <= NEAREST:
        yield title, "; ".join(evidence) or MISSING
        return
    yield title, f"no class fits; the nearest ones lack this (--json has the other {len(evidence) - NEAREST}):"
    yield from (("", f"  {reason}") for reason in sorted(evidence, key=lambda reason: reason.count("; "))[:NEAREST])


def catalog_text(document: Mapping[str, Any]) -> str:
    """Return a table of the passes and a table of the named sequences."""
    width = text_width()
    titles = ("pass", "level", "paper", "role", "classes", "summary")
    rows = [
        (
            entry["name"],
            str(entry["opt_level"]),
            cell_text(entry["paper"]),
            entry["role"],
            cell_text(entry["classes"]),
            entry["summary"],
        )
        for entry in document.get("passes") or []
    ]
    sequences = [
        (sequence["name"], sequence["summary"], sequence["pipeline"]) for sequence in document.get("sequences") or []
    ]
    sequence_table = table(("sequence", "summary", "passes"), sequences, width=width)
    # A table without the paper's passes has no abbreviation to explain.
    has_paper = any(entry["paper"] for entry in document.get("passes") or [])
    notes = [paragraph("", PAPER_NOTE, width=width)] if has_paper else []
    return "\n\n".join([table(titles, rows, width=width, right=("level",)), *notes, sequence_table])


def catalog_entry_text(entry: Mapping[str, Any]) -> str:
    """Return everything the catalog says about one pass, or about one named sequence."""
    width = text_width()
    apart = ("parameters", "needs", "relations")
    lines = [(key, cell_text(value)) for key, value in entry.items() if key not in apart]
    if "needs" in entry:
        lines.append(("needs", ", ".join(need_text(need) for need in entry["needs"] or []) or MISSING))
    paragraphs = [paragraph(key, text, width=width) for key, text in lines]
    rows = [parameter_row(parameter) for parameter in entry.get("parameters") or []]
    parts = [table(PARAMETER_TITLES, rows, width=width)] if rows else []
    if related := relation_rows(entry):
        parts += [paragraph("", relation_note(entry), width=width), table(RELATION_TITLES, related, width=width)]
    return "\n\n".join(["\n".join(paragraphs), *parts])


def catalog_check_text(check: CatalogCheck) -> str:
    """Return the problems that a TVM has with the catalog's entries, and how many entries have none."""
    rows = [(entry.name, _check_outcome(entry)) for entry in check.entries]
    valid = sum(not entry.problems and not entry.skipped for entry in check.entries)
    toolchain = f"toolchain {check.toolchain}, TVM {check.tvm_version}"
    total = f"{valid} of {len(rows)} entries are valid for {toolchain}."
    parts = [table(("pass", "outcome"), rows, width=text_width()), total]
    if check.sequences:
        cells = [(sequence.name, sequence.network, _sequence_outcome(sequence)) for sequence in check.sequences]
        equal = sum(not sequence.problem for sequence in check.sequences)
        parts += [table(("sequence", "network", "outcome"), cells, width=text_width())]
        parts += [f"{equal} of {len(cells)} sequences reach the same IR in a process of their own."]
    return "\n\n".join(parts)


def _sequence_outcome(sequence: CheckedSequence) -> str:
    return sequence.problem or (f"refused: {sequence.refusal}" if sequence.refusal else "ok")


def _check_outcome(entry: CheckedEntry) -> str:
    if entry.problems:
        return "; ".join(entry.problems)
    return f"not checked: {entry.skipped}" if entry.skipped else "ok"


def feature_row(name: str, feature: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return a feature of a network as the cells of a row."""
    first = lookup(feature, "first")
    return (
        name.replace("_", " "),
        cell_text(feature.get("count")),
        MISSING if first is None else f"%{first}",
        cell_text(feature.get("detail")),
    )


def need_text(need: Mapping[str, Any]) -> str:
    """Return a prerequisite of a pass, and when it is one."""
    features = need.get("when")
    return f"{need['name']} (if the network has {cell_text(features)})" if features else str(need["name"])


def parameter_row(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a parameter as the cells under ``PARAMETER_TITLES``."""
    default = "required" if parameter.get("required") else str(parameter.get("default"))
    searched = ", ".join(map(str, parameter.get("alternatives") or ())) or MISSING
    return str(parameter["name"]), str(parameter["type"]), default, searched, cell_text(parameter.get("meaning"))


def relation_rows(entry: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the measured relations of a pass as rows of cells under ``RELATION_TITLES``; none of a sequence."""
    if not entry.get("relations"):
        return []
    pairs = PassRelations.from_json(entry["relations"]).pairs
    words = {each: _RELATIONS[_strength(each)][each.first != entry["name"]] for each in pairs}
    order = [word for both in _RELATIONS.values() for word in both]
    return [
        (
            words[each],
            each.second if each.first == entry["name"] else each.first,
            f"{each.seen} of {each.states}",
            f"{each.network} after {each.after}" if each.after else each.network,
        )
        for each in sorted(pairs, key=lambda each: order.index(words[each]))
    ]


def _strength(relation: PassRelation) -> str:
    # An order that some states contradict is needed by some networks only.
    return "may precede" if relation.relation == "precedes" and relation.seen < relation.states else relation.relation


def relation_note(entry: Mapping[str, Any]) -> str:
    """Return the sentence above the measured relations of a pass."""
    found = PassRelations.from_json(entry["relations"])
    return (
        f"Relations to other passes, measured for {found.passes} passes of the catalog (of the passes that apply to "
        f"each network) in {found.states} states of {found.networks} networks (TVM {found.tvm}, {found.date}). A state "
        "counts if it shows or contradicts the relation."
    )


def cell_text(value: Any) -> str:
    """Return any value of a document as the text of a cell."""
    # `bool` first: it is a subclass of int and would be printed as True or False.
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {item}" for key, item in value.items()) or MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or MISSING
    return MISSING if value is None or value == "" else str(value)
