"""Findings, toolchains, analyses and catalogs as text for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.report.table import paragraph, table, text_width
from passsearch.report.wording import MISSING, at, ratio

_STATES = {True: "ok", False: "missing", None: "–"}


def findings_text(findings: Sequence[Mapping[str, Any]]) -> str:
    """What the doctor found, and under it what to do."""
    width = text_width()
    rows = [(_STATES[each["ok"]], str(each["name"]), str(each["detail"])) for each in findings]
    remedies = [paragraph(str(each["name"]), str(each["remedy"]), width=width) for each in findings if each["remedy"]]
    grid = table(("", "what", "found"), rows, width=width)
    return "\n\n".join([grid, *(["\n".join(["to do:", *remedies])] if remedies else [])])


def audit_text(document: Mapping[str, Any]) -> str:
    """What was held against the record, and the verdict."""
    rows = [("ok" if each["ok"] else "no", str(each["name"]), str(each["detail"])) for each in document["checks"]]
    refused = next((f"refused: {name}: {detail}" for ok, name, detail in rows if ok == "no"), "")
    verdict = refused or "signed off"
    ratios = document.get("ratios") or {}
    measured = ", ".join(f"{name.replace('_', ' ')} {ratio(found)}" for name, found in ratios.items())
    grid = table(("", "what", "found"), rows, width=text_width())
    lines = [("measured", measured)] if measured else []
    told = "\n".join(paragraph(name, text, width=text_width()) for name, text in [*lines, ("verdict", verdict)])
    return f"{grid}\n\n{told}"


def toolchains_text(toolchains: Sequence[Mapping[str, Any]]) -> str:
    """One row per toolchain."""
    if not toolchains:
        return "No toolchain yet. Run: passsearch toolchain install DIALECT"
    heads = ("name", "dialect", "TVM", "LLVM", "CUDA", "Python", "interpreter")
    keys = ("name", "dialect", "tvm_version", "llvm_version", "cuda", "python_version", "python")
    rows = [[_cell(each.get(key)) for key in keys] for each in toolchains]
    return table(heads, rows, width=text_width())


def analysis_text(document: Mapping[str, Any]) -> str:
    """Operators, features, classes with evidence, and what that makes of the catalog."""
    width = text_width()
    operators = ", ".join(f"{count} {kind}" for kind, count in (document.get("operators") or {}).items())
    lines = [("network", _cell(document.get("model"))), ("operators", operators or MISSING)]
    lines += [
        (f"class {each['name']}", "; ".join(each["evidence"]) or MISSING) for each in document.get("classes") or []
    ]
    head = "\n".join(paragraph(name, text, width=width) for name, text in lines)
    features = [_feature(name, found) for name, found in (document.get("fingerprint") or {}).items()]
    parts = [head, table(("feature", "count", "first", "detail"), features, width=width, right=("count",))]
    for title, key in (("pass to search", "passes"), ("pass left out", "dropped")):
        rulings = [(str(each["name"]), str(each["reason"])) for each in document.get(key) or []]
        parts.append(table((title, "reason"), rulings, width=width))
    return "\n\n".join(parts)


def catalog_text(document: Mapping[str, Any]) -> str:
    """All passes and named sequences, one line each."""
    width = text_width()
    heads = ("pass", "level", "paper", "role", "classes", "what it does")
    rows = [
        (
            each["name"],
            str(each["opt_level"]),
            _cell(each["paper"]),
            each["role"],
            _cell(each["classes"]),
            each["summary"],
        )
        for each in document.get("passes") or []
    ]
    sequences = [(each["name"], each["summary"], each["pipeline"]) for each in document.get("sequences") or []]
    named = table(("sequence", "what it stands for", "passes"), sequences, width=width)
    return "\n\n".join([table(heads, rows, width=width, right=("level",)), named])


def entry_text(document: Mapping[str, Any]) -> str:
    """All that is known of one pass."""
    width = text_width()
    listed = [(key, _cell(value)) for key, value in document.items() if key not in ("parameters", "needs")]
    needs = ", ".join(_need(each) for each in document.get("needs") or [])
    lines = [paragraph(key, text, width=width) for key, text in [*listed, ("needs", needs or MISSING)]]
    rows = [_parameter(each) for each in document.get("parameters") or []]
    heads = ("parameter", "type", "default", "searched", "meaning")
    return "\n\n".join(["\n".join(lines), *([table(heads, rows, width=width)] if rows else [])])


def checks_text(document: Mapping[str, Any]) -> str:
    """What a compiler said of the entries: the problems, and how many have none."""
    entries = document.get("entries") or []
    rows = [(each["name"], _outcome(each)) for each in entries]
    sound = sum(not each["problems"] and not each["skipped"] for each in entries)
    where = f"toolchain {document.get('toolchain')}, TVM {document.get('tvm_version')}"
    total = f"{sound} of {len(entries)} entries hold on {where}."
    return "\n\n".join([table(("pass", "outcome"), rows, width=text_width()), total])


def _outcome(row: Mapping[str, Any]) -> str:
    if row["problems"]:
        return "; ".join(row["problems"])
    return f"not checked: {row['skipped']}" if row["skipped"] else "ok"


def _feature(name: str, found: Mapping[str, Any]) -> tuple[str, str, str, str]:
    first = at(found, "first")
    return (
        name.replace("_", " "),
        _cell(found.get("count")),
        MISSING if first is None else f"%{first}",
        _cell(found.get("detail")),
    )


def _need(need: Mapping[str, Any]) -> str:
    when = need.get("when")
    return f"{need['name']} (where there is {_cell(when)})" if when else str(need["name"])


def _parameter(each: Mapping[str, Any]) -> tuple[str, ...]:
    default = "required" if each.get("required") else str(each.get("default"))
    searched = ", ".join(map(str, each.get("alternatives") or ())) or MISSING
    return str(each["name"]), str(each["type"]), default, searched, _cell(each.get("meaning"))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {each}" for key, each in value.items()) or MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or MISSING
    return MISSING if value is None or value == "" else str(value)
