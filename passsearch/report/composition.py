"""What the times of single kernels decided, as lines of text."""

from collections.abc import Iterator

from passsearch.report.formatting import counted, format_interval, format_percent
from passsearch.results import ComposedPipeline, NoComposition, RunResult

LARGE_LOG10 = 3
"""Power of ten from which on a number of combinations is written as one."""


def kernel_lines(result: RunResult) -> Iterator[tuple[str, str]]:
    """Yield what the times of kernels decided, or why they decided nothing."""
    composition = result.composition
    if isinstance(composition, NoComposition):
        yield "kernels", f"nothing was composed of single kernels: {composition.failure.reason}"
    elif composition:
        yield "kernels", _composition(composition)
        if certificate := _certificate(composition, result):
            yield "certificate", certificate


def _composition(composition: ComposedPipeline) -> str:
    """Return, in words, among how many combinations the times of kernels decided, and the time that they predict.

    Nothing is predicted where some of the times are of earlier runs.
    """
    kernels, variants = counted(composition.kernels, "kernel"), counted(composition.variants, "variant")
    decided = f"{kernels} timed in {variants}, which {_combinations(composition.combinations_log10)}"
    # The machine had another load then.
    if recalled := composition.recalled:
        return f"{decided}; {recalled} of the times are of earlier runs, so they chose what to try and predict nothing"
    whole = ""
    if inference := composition.inference_s:  # results of earlier versions have none
        ends_ms = [1e3 * end for end in inference.interval]
        took = format_interval(1e3 * inference.value, ends_ms, decimals=3)
        whole = f"; a whole inference is predicted to take {took} ms"
    predicted, before = (f"{1e3 * seconds:.3g} ms" for seconds in (composition.predicted_s, composition.begin_s))
    change = "" if predicted == before else f" instead of {before}"
    return f"{decided}; predicted {predicted}{change} an inference{whole}"


def _combinations(log10: float) -> str:
    """Return between how many pipelines the times of kernels decide."""
    if log10 >= LARGE_LOG10:
        return f"decide between 10^{log10:.0f} combinations"
    number = round(10**log10)
    return f"decide between {number} combinations" if number > 1 else "leave nothing to decide"


def _certificate(composition: ComposedPipeline, result: RunResult) -> str:
    """Return how far any other combination of kernels is predicted to be, and how well the prediction holds."""
    # Results of earlier versions have no bound; one by times of earlier runs is none.
    if composition.bound_s is None or composition.recalled:
        return ""
    predicted_s = composition.predicted_s
    rest = format_percent(max(0.0, 1 - composition.bound_s / predicted_s))
    bound = "faster" if rest == format_percent(0.0) else f"more than {rest} faster"
    sentence = f"of these combinations none is predicted to be {bound}"
    # By name too: a trial has the cheapest pipeline that leads to the composed state.
    keys = (composition.pipeline, "composed")
    rows = [row for row in result.trials if row.pipeline in keys or row.name in keys]
    samples = [value for row in rows if row.latency_s for value in row.latency_s.samples]
    if not samples:
        return f"{sentence}; it was not measured as a whole"
    return (
        f"{sentence}; measured as a whole its fastest inference takes {1e3 * min(samples):.3g} ms, "
        f"{min(samples) / predicted_s:.2f} times what the kernels predict"
    )
