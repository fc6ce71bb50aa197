"""A recommendation without a search."""

from collections.abc import Iterator

from passsearch.report.formatting import format_ratio
from passsearch.report.table import paragraph, paragraph_lines, text_width
from passsearch.results import NetworkRecommendation, SearchBound
from passsearch.toolchain import target_cpu


def recommendation_text(document: NetworkRecommendation) -> str:
    """Return the pipeline in a sentence, then what to expect of it and what a search could still add."""
    width = text_width()
    headline = paragraph("", recommendation_line(document), width=width)
    return f"{headline}\n\n{paragraph_lines(_lines(document), width=width)}"


def recommendation_line(document: NetworkRecommendation) -> str:
    """Return the pipeline and why it is recommended, in a sentence."""
    name = f"`{document.pipeline.name}`"
    if document.abstained:
        return f"No expectation: {document.abstained}. {name} is {document.reason}."
    return f"{name}: {document.reason}."


def _lines(document: NetworkRecommendation) -> Iterator[tuple[str, str]]:
    yield "network", f"{document.model.source} ({', '.join(document.classes)})"
    own = target_cpu(document.target)
    stands_in = f", for `{own}`, whose vectors are as wide" if document.processor and own != document.processor else ""
    yield "processor", f"{document.processor}{stands_in}"
    others = {"TVM's default": document.over_default, **document.over_others, "ONNX Runtime": document.over_onnxruntime}
    for name, ratio in others.items():
        if ratio is not None:
            yield f"throughput over {name}", f"{format_ratio(ratio)} expected"
    if document.bound is not None:
        yield "a search adds", bound_text(document.bound)
    yield "pipeline", document.pipeline.passes
    yield "seconds", ", ".join(f"{name} {value:.2f}" for name, value in document.seconds.items())


def bound_text(bound: SearchBound) -> str:
    """Return what a search could still add, and how that is known."""
    most, mean = (f"{100 * share:.1f} %" for share in (bound.most, bound.mean))
    return f"at most {most}, {mean} on average ({100 * bound.level:.0f} % level; {bound.method})"
