"""What the times of single kernels decided, as lines of text."""

from collections.abc import Iterator, Mapping
from typing import Any

from passsearch.report.formatting import format_interval, format_percent, lookup


def kernel_lines(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the times of kernels decided, or why they decided nothing."""
    composition = document.get("composition") or {}
    if "failure" in composition:
        yield "kernels", f"nothing was composed of single kernels: {composition['failure']['reason']}"
    elif composition:
        yield "kernels", _composition(composition)
        if certificate := _certificate(document):
            yield "certificate", certificate


def _composition(composition: Mapping[str, Any]) -> str:
    """Return what the times of kernels decided between, and what they predict, if all are of this run."""
    decided = (
        f"{composition['kernels']} kernels timed in {composition['variants']} variants, which decide between "
        f"10^{composition['combinations_log10']:.0f} combinations"
    )
    # The machine had another load then.
    if recalled := composition.get("recalled"):
        return f"{decided}; {recalled} of the times are of earlier runs, so they chose what to try and predict nothing"
    whole = ""
    if inference := composition.get("inference_s"):  # results of earlier versions have none
        ends_ms = [1e3 * end for end in inference["interval"]]
        took = format_interval(1e3 * inference["value"], ends_ms, decimals=3)
        whole = f"; a whole inference is predicted to take {took} ms"
    return (
        f"{decided}; predicted {1e3 * composition['predicted_s']:.3g} ms instead of "
        f"{1e3 * composition['begin_s']:.3g} ms an inference{whole}"
    )


def _certificate(document: Mapping[str, Any]) -> str:
    """Return how far any other combination of kernels is predicted to be, and how well the prediction holds."""
    composition = document["composition"]
    # Results of earlier versions have no bound; one by times of earlier runs is none.
    if "bound_s" not in composition or composition.get("recalled"):
        return ""
    predicted_s = composition["predicted_s"]
    rest = format_percent(max(0.0, 1 - composition["bound_s"] / predicted_s))
    bound = "faster" if rest == format_percent(0.0) else f"more than {rest} faster"
    sentence = f"of these combinations none is predicted to be {bound}"
    # By name too: a trial has the cheapest pipeline that leads to the composed state.
    keys = (composition["pipeline"], "composed")
    rows = [row for row in document.get("trials") or [] if row.get("pipeline") in keys or row.get("name") in keys]
    samples = [value for row in rows for value in lookup(row, "latency_s", "samples") or []]
    if not samples:
        return f"{sentence}; it was not measured as a whole"
    return (
        f"{sentence}; measured as a whole its fastest inference takes {1e3 * min(samples):.3g} ms, "
        f"{min(samples) / predicted_s:.2f} times what the kernels predict"
    )
