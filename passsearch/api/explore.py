"""``explore`` and ``check_space``: everything a set of passes can make of a network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from passsearch.api.common import Progress, evaluating, network, paths, silent
from passsearch.catalog import bind_pipeline
from passsearch.core import DEADLINE_S, Pipeline, TensorType
from passsearch.evaluate import open_session
from passsearch.evaluate.closure import Closure
from passsearch.evaluate.exploration import Exploration, Limits
from passsearch.search.certificate import check_certificate, read_closure, space_document
from passsearch.search.pass_selection import analyze_network, explored_passes


def explore(
    model: object,
    example_inputs: object = None,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    passes: Sequence[str] | None = None,
    additional: Sequence[str] = (),
    every: bool = False,
    depth: int | None = None,
    states: int | None = None,
    timeout: float | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    catalogs: Sequence[str | Path] = (),
    remember: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Apply the passes in every order, any number of times, until no new IR appears or a limit is met.

    What is found is remembered in the cache folder, so the same call again goes on and ``tune`` profits from it.

    Args:
        model: As for ``tune``, and so are ``example_inputs``, ``inputs`` and ``batch``.
        example_inputs: What a torch module or a gluon block is run with to see what it does.
        inputs: Shape and dtype by input name.
        batch: Binds a symbolic first dimension.
        passes: These passes alone: names (all choices of arguments) or passes written out.
        additional: Passes to add that must be asked for: those the catalog leaves to the user's intent, and those with
            which a space never closes.
        every: Take the catalog's candidates whatever the network's classes and features.
        depth: Longest sequence.
        states: Most states.
        timeout: Wall time in seconds.
        target: TVM's target; the host CPU by default.
        toolchain: Name of the toolchain; the first there is by default.
        deadline: Seconds one pass may take.
        catalogs: YAML files with the user's own passes.
        remember: Use and keep what other runs find out.
        progress: Told how many states are done and known.

    Returns:
        The explored space with its certificate: the states, the edges and what follows from them.

    Raises:
        UserError: Something asked for cannot be; says what to do.
        EnvironmentFault: No toolchain.
    """
    file = network(model, example_inputs, inputs=inputs, batch=batch, toolchain=toolchain)
    chosen = open_session(file, toolchain=toolchain, target=target, catalogs=paths(catalogs), deadline_s=deadline)
    told = progress or silent
    with evaluating(chosen, remember=remember) as evaluator:
        steps, left_out = explored_passes(chosen, evaluator.summary, passes=passes, additional=additional, every=every)
        exploration = Exploration(
            evaluator,
            steps,
            limits=Limits(depth, states, timeout),
            compilers=chosen.explorers,
            progress=lambda done, known: told("exploring", done, known),
        )
        growth = exploration.run()
        classes = analyze_network(chosen, evaluator.summary).class_names
        closure, kept = Closure.of(evaluator.graph, steps), evaluator.remembers
        return space_document(chosen, closure, growth=growth, classes=classes, left_out=left_out, remembered=kept)


def check_space(
    document: Mapping[str, Any],
    model: object,
    *,
    example_inputs: object = None,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    sample: int = 50,
    seed: int = 0,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    catalogs: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Apply a random sample of an explored space's edges again, remembering nothing, and compare.

    Args:
        document: What ``explore`` returned.
        model: The network it was made from, and so on as for ``explore``.
        example_inputs: What a torch module or a gluon block is run with to see what it does.
        inputs: Shape and dtype by input name.
        batch: Binds a symbolic first dimension.
        sample: Edges.
        seed: Seed of the drawing.
        toolchain: Name of the toolchain; the document's own by default.
        deadline: Seconds one pass may take.
        catalogs: YAML files with the user's own passes.
        progress: Told how far it is.

    Raises:
        UserError: The document is no explored space.
        EnvironmentFault: Its toolchain is not there.
    """
    closure = read_closure(document, "the document")
    named = toolchain or str(document["toolchain"]["name"])
    chosen = open_session(
        network(model, example_inputs, inputs=inputs, batch=batch, toolchain=named),
        toolchain=named,
        target=document["target"],
        catalogs=paths(catalogs),
        deadline_s=deadline,
    )
    bind_pipeline(Pipeline(closure.passes), chosen.catalog)
    told = progress or silent
    with evaluating(chosen, remember=False) as evaluator:
        return check_certificate(
            document,
            closure,
            chosen=chosen,
            applier=evaluator,
            sample=sample,
            seed=seed,
            progress=lambda done, all_: told("checking", done, all_),
        )
