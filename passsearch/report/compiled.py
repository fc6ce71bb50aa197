"""A network that was compiled without a search."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from passsearch.core import Pipeline
from passsearch.report.formatting import format_number
from passsearch.report.precision import error_text, precision_lines
from passsearch.report.rivals import beside_lines, busy_warning, engine_ahead, engine_name, stated_ratios
from passsearch.report.sizes import other_sizes, size_table
from passsearch.report.table import paragraph, paragraph_lines, table, text_width
from passsearch.results import BUSY_PERCENT, ChosenPipeline, Compilation, FailedRival, PrecisionDecision, TriedPipeline

FEW_PASSES = 3
"""Largest number of passes that are listed; the README in the folder lists more."""


def compiled_text(compilation: Compilation) -> str:
    """Return the comparison with the user's other engines in a sentence, then what was built, where and why."""
    width = text_width()
    parts = [paragraph("", compiled_headline(compilation), width=width)]
    rows = [_tried(tried) for tried in compilation.tried]
    if len(rows) > 1:
        parts.append(table(("pipeline", "throughput"), rows, width=width, right=("throughput",)))
    if compilation.sizes:
        parts.append(size_table(compilation.sizes, width=width))
    parts.append(paragraph_lines(_lines(compilation), width=width))
    if compilation.python:
        command = [compilation.python, str(Path(compilation.folder) / "run_model.py")]
        parts[-1] += f"\nrun with: {shlex.join(command)}"  # in one line, to be copied
    return "\n\n".join(parts)


def compiled_headline(compilation: Compilation) -> str:
    """Return how fast a network is and how that compares with the user's other engines, in a sentence."""
    rivals = compilation.measured_rivals
    bits = _bits(compilation)
    if not rivals:
        return f"Compiled{bits} by `{_name(compilation.pipeline) or 'the pipeline'}`; no other engine was beside it."
    ahead, network = engine_ahead(rivals), Path(compilation.model).name
    # All engines run in the same rounds, so the network has one latency.
    own_s = next(iter(rivals.values())).latency_s.median
    take = f"Take {ahead}: " if ahead else ""
    return f"{take}{network}{bits} runs in {format_number(own_s * 1e3)} ms, with {stated_ratios(rivals)}."


def _bits(compilation: Compilation) -> str:
    """Return the precision of a network, where one was asked for."""
    if compilation.precision is None:
        return ""
    narrow = compilation.narrow
    return f" in fewer bits ({error_text(narrow)})" if narrow else " in float32"


def _tried(tried: TriedPipeline) -> tuple[str, str]:
    if tried.failure:
        return tried.name, f"failed: {tried.failure.reason}"
    return tried.name, "1.00" if tried.ratio is None else f"{tried.ratio:.2f}"


def _outputs(compilation: Compilation) -> str:
    reference, deviation = compilation.reference, compilation.deviation
    if not reference.runtime:
        return f"not proven: {reference.reason}"
    by = f", deviate by {deviation:.2g} of the largest value" if deviation is not None else ""
    return f"checked against {reference.runtime}{by}"


def _lines(compilation: Compilation) -> Iterator[tuple[str, str]]:
    seconds = compilation.seconds
    yield from beside_lines(compilation.measured_rivals)
    if compilation.measured_rivals and compilation.others_percent >= BUSY_PERCENT:
        yield busy_warning(compilation.others_percent)
    yield "network", f"{compilation.model} ({', '.join(compilation.classes)})"
    yield "pipeline", _pipeline(compilation.pipeline)
    yield "outputs", _outputs(compilation)
    if compilation.sizes:
        yield "other sizes", other_sizes(compilation.sizes)
    precision = compilation.precision
    if isinstance(precision, PrecisionDecision) and precision.gain is not None and not compilation.narrow:
        yield "precision", f"float32: what was decided has {precision.gain:.2f} times its throughput"
    else:
        yield from precision_lines(precision)
    yield "target", f"{compilation.target}, toolchain {compilation.toolchain}"
    for name, rival in compilation.rivals.items():
        if isinstance(rival, FailedRival):
            yield f"not compared with {engine_name(name)}", rival.failure
    if compilation.rivals_reason:
        yield "not compared", compilation.rivals_reason
    compared = f", comparison {seconds['rivals']:.1f}" if "rivals" in seconds else ""  # earlier versions lacked it
    decided = f", precision {seconds['precision']:.1f}" if "precision" in seconds else ""
    yield "seconds", f"import {seconds['import']:.1f}, build and export {seconds['build']:.1f}{decided}{compared}"
    yield "files", compilation.folder


def _name(pipeline: ChosenPipeline) -> str:
    """Return the name of a pipeline; empty for one that was written out, whose name is the whole of it."""
    return "" if "," in pipeline.name else pipeline.name


def _pipeline(pipeline: ChosenPipeline) -> str:
    """Return the name of a pipeline, and its passes where they are few."""
    count = len(Pipeline.parse(pipeline.passes)) if pipeline.passes else 0
    passes = pipeline.passes or "(no explicit pass)"
    if count > FEW_PASSES:
        passes = f"{count} passes, which README.md in the folder lists"
    return ": ".join(dict.fromkeys(filter(None, [_name(pipeline), passes])))
