"""A network that was compiled without a search."""

from collections.abc import Iterator, Mapping
from typing import Any

from passsearch.report.formatting import format_ratio
from passsearch.report.table import paragraph, paragraph_lines, table, text_width

_ENGINES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}


def compiled_text(document: Mapping[str, Any]) -> str:
    """Return the comparison with the user's other engines in a sentence, then what was built, where and why."""
    width = text_width()
    parts = [paragraph("", _headline(document), width=width)]
    rows = [_tried(row) for row in document["tried"]]
    if len(rows) > 1:
        parts.append(table(("pipeline", "throughput"), rows, width=width, right=("throughput",)))
    parts.append(paragraph_lines(_lines(document), width=width))
    return "\n\n".join(parts)


def _headline(document: Mapping[str, Any]) -> str:
    rivals = {name: row for name, row in document["rivals"].items() if "failure" not in row}
    if not rivals:
        return f"Compiled by `{document['pipeline']['name'] or 'the pipeline'}`; no other engine was beside it."
    # A rival that is ahead is said first.
    order = sorted(rivals.items(), key=lambda item: min(float(ratio["ratio"]) for ratio in rival_ratios(item[1])))
    return f"{'; '.join(_ratio(name, row) for name, row in order)}."


def rival_ratios(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the throughput beside a rival by the fastest runs and by the medians; none if it failed."""
    return [] if "failure" in row else [row["ratio"], row["ratio_of_medians"]]


def _ratio(name: str, row: Mapping[str, Any]) -> str:
    fastest, medians = map(format_ratio, rival_ratios(row))
    return f"{fastest} times {_ENGINES.get(name, name)} by the fastest runs, {medians} by medians"


def _tried(row: Mapping[str, Any]) -> tuple[str, str]:
    if row["failure"]:
        return row["name"], f"failed: {row['failure']['reason']}"
    return row["name"], "1.00" if row["ratio"] is None else f"{row['ratio']:.2f}"


def _lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    seconds = document["seconds"]
    yield "network", f"{document['model']} ({', '.join(document['classes'])})"
    yield "pipeline", document["pipeline"]["passes"] or "(no explicit pass)"
    yield "target", f"{document['target']}, toolchain {document['toolchain']}"
    for name, row in document["rivals"].items():
        if "failure" in row:
            yield f"not compared with {_ENGINES.get(name, name)}", row["failure"]
    if document["rivals_reason"]:
        yield "not compared", document["rivals_reason"]
    yield "seconds", f"import {seconds['import']:.1f}, build and export {seconds['build']:.1f}"
    yield "files", document["folder"]
