"""``explore`` and ``check_space``: all states that a set of passes can make of a network."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.api.common import Progress, Sizes, network_session, open_evaluator, progress_callback
from passsearch.api.results import ExploredSpace
from passsearch.catalog import bind_pipeline, find_folders
from passsearch.core import (
    DEADLINE_S,
    SOURCE,
    InputTypes,
    Json,
    Limits,
    NetworkOptions,
    Pipeline,
    check_arguments,
    limit_or_inf,
    require_trust,
)
from passsearch.evaluate import Closure, Exploration, ExplorationLimits, find_options
from passsearch.results import Reference
from passsearch.search import (
    analyze_network,
    explored_passes,
)
from passsearch.studies import (
    check_certificate,
    explored_space,
    read_closure,
)

_log = logging.getLogger(__name__)


@check_arguments
def explore(
    model: object,
    example_inputs: object = None,
    *,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    samples: str | Path | None = None,
    reference: str = SOURCE,
    passes: Sequence[str] | None = None,
    additional: Sequence[str] = (),
    every: bool = False,
    depth: int | None = None,
    states: int | None = None,
    timeout: float | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    remember: bool = True,
    progress: Progress | bool | None = None,
) -> ExploredSpace:
    """Apply the passes in every order, any number of times, until no new IR appears or a limit is met.

    The edges go to the fact cache, so the same call again continues, and ``tune`` starts from them.

    Args:
        model: The network: see ``tune``.
        reference: ``"import"`` to explore an import that is another network than its source: see ``tune``.
        passes: The only passes to apply: names (all choices of arguments) or passes written out.
        additional: Passes that are applied on request only: those the catalog leaves to the user's intent, and those
            with which a space never closes.
        every: True to take the catalog's candidates whatever the network's classes and features.
        depth: Length of the longest sequence.
        states: Largest number of states.
        deadline: Seconds that one pass may take; its process group is killed after them.
        remember: True to use and extend the fact cache.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets a text, the number of states whose edges are all known, and of all states.

    Returns:
        The explored space with its certificate as JSON: the states, the edges and what follows from them. It prints as
        a table.

    Raises:
        UserError: An argument is impossible; the message says what to do.
        EnvironmentFault: There is no toolchain.
    """
    # The time limit is that of the exploration, and the import is waited for.
    network, limits = NetworkOptions.of(locals()), Limits(deadline=deadline, memory=memory)
    with (
        progress_callback(progress) as report,
        open_evaluator(network_session(model, example_inputs, network, limits), remember=remember) as evaluator,
    ):
        report("proving the import", 0, 0)
        proof = evaluator.builder.prove_import()
        summary = evaluator.network.summary
        steps, left_out = explored_passes(evaluator.session, summary, passes=passes, additional=additional, every=every)
        if left_out:
            _log.info("left out, because the space may never close with them: %s", ", ".join(left_out))
        exploration = Exploration(
            evaluator.applier,
            steps,
            limits=ExplorationLimits(limit_or_inf(depth), limit_or_inf(states), limit_or_inf(timeout)),
            compilers=evaluator.session.explorers,
            progress=lambda done, number: report("exploring", done, number),
        )
        growth = exploration.run()
        return ExploredSpace(
            explored_space(
                evaluator.session,
                Closure.of(evaluator.graph, steps),
                growth=growth,
                classes=analyze_network(evaluator.session, summary).class_names,
                left_out=left_out,
                remembered=evaluator.is_shared,
                reference=Reference.from_json(proof.to_json()),
            ).to_json()
        )


@check_arguments
def check_space(
    document: Mapping[str, Any],
    model: object,
    *,
    example_inputs: object = None,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    samples: str | Path | None = None,
    sample: int = 50,
    seed: int = 0,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> dict[str, Json]:
    """Apply a random sample of an explored space's edges again, without the fact cache, and compare.

    Args:
        document: The result of ``explore``.
        model: The network it was made from: see ``tune``.
        sample: Number of edges.
        seed: Seed of the sample.
        toolchain: Name of the toolchain; the document's own by default.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets a text, the number of checked edges and of all edges in the sample.

    Raises:
        UserError: The document is not an explored space.
        EnvironmentFault: Its toolchain is not installed.
    """
    network, limits, closure = NetworkOptions.of(locals()), Limits.of(locals()), read_closure(document, "the document")
    # The file is another user's data.
    code = [*find_options(str(document["target"])), *find_folders(Pipeline(closure.passes))]
    require_trust("the explored space", code, trust=trust)
    recorded = {"target": document["target"], "toolchain": toolchain or str(document["toolchain"]["name"])}
    network = replace(network, **recorded)
    with (
        progress_callback(progress) as report,
        # Without the fact cache, which has the very edges that are to be checked.
        open_evaluator(network_session(model, example_inputs, network, limits), remember=False) as evaluator,
    ):
        # Its passes must be in this catalog before any of them is applied.
        bind_pipeline(Pipeline(closure.passes), evaluator.session.catalog)
        return check_certificate(
            document,
            closure,
            evaluator=evaluator,
            sample=sample,
            seed=seed,
            progress=lambda done, number: report("checking", done, number),
        ).to_json()
