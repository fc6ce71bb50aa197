"""``recommend``: the pipeline of a network, what it gains and what a search could still add, without a build."""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from passsearch.api.common import Progress, Sizes, network_session, progress_callback
from passsearch.api.comparison import analyzed
from passsearch.api.results import Recommendation
from passsearch.catalog import read_corpus
from passsearch.core import InputTypes, NetworkOptions, check_arguments
from passsearch.results import ChosenPipeline, NetworkIdentity, NetworkRecommendation
from passsearch.search import CorpusAdvice, advise, recommended_sequences
from passsearch.toolchain import target_cpu

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
    imported_s, start = monotonic() - start, monotonic()
    candidates = {each.name: each for each in recommended_sequences(session, analysis)}
    advice: CorpusAdvice = advise(
        read_corpus(session.dialect.name), session.target, classes=analysis.class_names, suited=tuple(candidates)
    )
    candidate = candidates[advice.sequence]
    found, file = advice.found, session.model
    return Recommendation(
        NetworkRecommendation(
            schema=SCHEMA,
            model=NetworkIdentity(file.name, file.source, file.sha256),
            target=session.target,
            processor=advice.processor or target_cpu(session.target),
            classes=analysis.class_names,
            pipeline=ChosenPipeline(candidate.name, str(candidate.pipeline)),
            reason=advice.reason,
            abstained=advice.abstained,
            alike=tuple(found.alike) if found else (),
            over_default=advice.over_default,
            over_others=advice.over_others,
            over_onnxruntime=advice.over_onnxruntime,
            bound=advice.bound,
            seconds={"import": imported_s, "recommend": monotonic() - start},
        ).to_json()
    )
