"""``recommend``: the pipeline of a network, what it gains and what a search could still add, without a build."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

from passsearch.api.common import Progress, Sizes, network_session, open_evaluator, progress_callback
from passsearch.api.results import Recommendation
from passsearch.core import InputTypes, NetworkOptions, check_arguments
from passsearch.evaluate import Session, keep_summary, recall_summary
from passsearch.results import ChosenPipeline, NetworkIdentity, NetworkRecommendation
from passsearch.search import NetworkAnalysis, analyze_network, corpus_advice, recommended_sequences

SCHEMA = "passsearch-recommend/1"


@check_arguments
def recommend(
    model: object,
    example_inputs: object = None,
    *,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    target: str | None = None,
    toolchain: str | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> Recommendation:
    """Recommend a pipeline from what networks alike gained on this kind of processor; nothing is built or timed.

    Args:
        model: The network: see ``tune``.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        The pipeline, why, what to expect of it, and what a search could still add; where the corpus has nothing like
        the network, ``abstained`` says so and the pipeline is the one that ``compile`` builds.

    Raises:
        UserError: An argument is impossible; the message says what to do.
        EnvironmentFault: There is no toolchain.
    """
    network, start = NetworkOptions.of(locals()), monotonic()
    with progress_callback(progress) as report:
        session = network_session(model, example_inputs, network)
        analysis = analyzed(session, report)
    seconds = {"import": monotonic() - start}
    return Recommendation(network_recommendation(session, analysis, seconds=seconds).to_json())


def analyzed(opened: Session, report: Progress) -> NetworkAnalysis:
    """Return the analysis of a network, imported only where no earlier import kept its graph."""
    summary = recall_summary(opened)
    if summary is None:
        report(f"importing the network with {opened.toolchain.name}", 1, 2)
        with open_evaluator(opened, remember=False) as evaluator:
            summary = evaluator.network.summary
        keep_summary(opened, summary)
    return analyze_network(opened, summary)


def network_recommendation(
    session: Session, analysis: NetworkAnalysis, *, seconds: Mapping[str, float]
) -> NetworkRecommendation:
    """Return what is recommended for an analysed network."""
    start = monotonic()
    suited = recommended_sequences(session, analysis)
    advice = corpus_advice(session, analysis, suited)
    candidate, file = suited[0], session.model
    return NetworkRecommendation(
        schema=SCHEMA,
        model=NetworkIdentity(file.name, file.source, file.sha256),
        target=session.target,
        processor=advice.processor,
        classes=analysis.class_names,
        pipeline=ChosenPipeline(candidate.name, str(candidate.pipeline)),
        reason=advice.reason,
        abstained=advice.abstained,
        alike=advice.alike,
        over_default=advice.over_default,
        over_others=advice.over_others,
        over_onnxruntime=advice.over_onnxruntime,
        bound=advice.bound,
        seconds={**seconds, "recommend": monotonic() - start},
    )
