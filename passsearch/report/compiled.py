"""A network that was compiled without a search."""

from collections.abc import Iterator

from passsearch.report.formatting import format_ratio
from passsearch.report.table import paragraph, paragraph_lines, table, text_width
from passsearch.results import Compilation, FailedRival, Rival, TriedPipeline

_ENGINES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}


def compiled_text(compilation: Compilation) -> str:
    """Return the comparison with the user's other engines in a sentence, then what was built, where and why."""
    width = text_width()
    parts = [paragraph("", _headline(compilation), width=width)]
    rows = [_tried(tried) for tried in compilation.tried]
    if len(rows) > 1:
        parts.append(table(("pipeline", "throughput"), rows, width=width, right=("throughput",)))
    parts.append(paragraph_lines(_lines(compilation), width=width))
    return "\n\n".join(parts)


def _headline(compilation: Compilation) -> str:
    rivals = compilation.measured_rivals
    if not rivals:
        return f"Compiled by `{compilation.pipeline.name or 'the pipeline'}`; no other engine was beside it."
    # A rival that is ahead is said first.
    order = sorted(rivals.items(), key=lambda item: min(item[1].ratio.ratio or 0, item[1].ratio_of_medians.ratio or 0))
    return f"{'; '.join(_ratio(name, rival) for name, rival in order)}."


def _ratio(name: str, rival: Rival) -> str:
    fastest, medians = map(format_ratio, (rival.ratio, rival.ratio_of_medians))
    return f"{fastest} times {_ENGINES.get(name, name)} by the fastest runs, {medians} by medians"


def _tried(tried: TriedPipeline) -> tuple[str, str]:
    if tried.failure:
        return tried.name, f"failed: {tried.failure.reason}"
    return tried.name, "1.00" if tried.ratio is None else f"{tried.ratio:.2f}"


def _lines(compilation: Compilation) -> Iterator[tuple[str, str]]:
    seconds = compilation.seconds
    yield "network", f"{compilation.model} ({', '.join(compilation.classes)})"
    yield "pipeline", compilation.pipeline.passes or "(no explicit pass)"
    yield "target", f"{compilation.target}, toolchain {compilation.toolchain}"
    for name, rival in compilation.rivals.items():
        if isinstance(rival, FailedRival):
            yield f"not compared with {_ENGINES.get(name, name)}", rival.failure
    if compilation.rivals_reason:
        yield "not compared", compilation.rivals_reason
    yield "seconds", f"import {seconds['import']:.1f}, build and export {seconds['build']:.1f}"
    yield "files", compilation.folder
