"""``apply``: one pipeline on a network, pass by pass, with the IR before and after."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from passsearch.api.common import Sizes, network_session, open_evaluator, read_candidate
from passsearch.api.results import AppliedPipeline
from passsearch.core import (
    DEADLINE_S,
    Failure,
    InputTypes,
    Limits,
    NetworkOptions,
    PassSpec,
    check_arguments,
    suggest_name,
)
from passsearch.dialects.contract import WEIGHTS
from passsearch.errors import UserError
from passsearch.evaluate import LOG, Edge, WorkerEvaluator
from passsearch.results import Application, AppliedStep, StatedFailure
from passsearch.search import analyze_network, with_prerequisites
from passsearch.worker import last_failure

ALL = "all"
"""In place of a pass's name: the IR before and after every pass."""


@check_arguments
def apply(
    model: object,
    pipeline: str,
    example_inputs: object = None,
    *,
    print_ir: Sequence[str] = (),
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    target: str | None = None,
    toolchain: str | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
) -> AppliedPipeline:
    """Apply a pipeline to a network and say what each pass did; nothing is built, and nothing recalled or remembered.

    Args:
        model: The network: see ``tune``.
        pipeline: A pipeline written out, a named one, a pipeline file, or a run folder, whose winner is meant.
        print_ir: Names of passes before and after which the IR is kept as text; ``all`` stands for every pass.
        deadline: Seconds that one pass may take; its process group is killed after them.

    Returns:
        The passes with seconds, whether they changed the IR, operator counts, and IR before and after where
        it was asked for. A pass that fails ends the list; ``failure`` and ``traceback`` then say why.

    Raises:
        UserError: The pipeline cannot be read, or does not have a pass of ``print_ir``.
        EnvironmentFault: There is no toolchain.
    """
    opened = network_session(model, example_inputs, NetworkOptions.of(locals()), Limits.of(locals()))
    with open_evaluator(opened, remember=False) as evaluator:
        candidate = read_candidate(opened, pipeline, trust=trust)
        candidate = with_prerequisites(opened, analyze_network(opened, evaluator.network.summary), candidate)
        passes = candidate.pipeline.passes
        _require_named(print_ir, passes)
        edges = evaluator.applier.path(candidate.pipeline)
        states = evaluator.applier.states(candidate.pipeline)
        failure = edges[-1].target if edges and isinstance(edges[-1].target, Failure) else None
        applied = Application(
            toolchain=opened.toolchain.name,
            target=opened.target,
            pipeline=str(candidate.pipeline),
            steps=tuple(_steps(evaluator, passes, edges, states=states, print_ir=print_ir)),
            failure=StatedFailure(**vars(failure)) if failure else None,
            traceback=last_failure(evaluator.folder / LOG) if failure else "",
        )
        return AppliedPipeline(applied.to_json())


def _require_named(print_ir: Sequence[str], passes: Sequence[PassSpec]) -> None:
    names = sorted({step.name for step in passes})
    for name in print_ir:
        if name not in (*names, ALL):
            hint = suggest_name(name, names) or f"its passes are {', '.join(names) or 'none'}; `{ALL}` prints all."
            raise UserError(f"The pipeline has no pass `{name}`, so there is no IR to print; {hint}")


def _steps(
    evaluator: WorkerEvaluator,
    passes: Sequence[PassSpec],
    edges: Sequence[Edge],
    *,
    states: Sequence[str],
    print_ir: Sequence[str],
) -> Iterator[AppliedStep]:
    """Yield each pass that was tried, with its states, time and effect; the last one may have failed."""
    for place, edge in enumerate(edges):
        step, before = passes[place], states[place]
        after = None if isinstance(edge.target, Failure) else edge.target
        kept = {"before": before, "after": after} if {step.name, ALL} & {*print_ir} else {}
        changes = {} if after is None else _difference(evaluator, before, after)
        weights = tuple(name.removeprefix(WEIGHTS) for name in changes if name.startswith(WEIGHTS))
        yield AppliedStep(
            step=str(step),
            changed=None if after is None else after != before,
            seconds=edge.seconds,
            operators=None if after is None else {k: n for k, n in changes.items() if not k.startswith(WEIGHTS)},
            ir={when: state and _text(evaluator, state) for when, state in kept.items()} or None,
            weights=weights or None,
        )


def _difference(evaluator: WorkerEvaluator, before: str, after: str) -> dict[str, int]:
    """Return how many more or fewer there are of each operator, function and constant that changed in number."""
    old, new = (evaluator.applier.op_counts(state) for state in (before, after))
    changes = {name: new.get(name, 0) - old.get(name, 0) for name in sorted({*old, *new})}
    return {name: change for name, change in changes.items() if change}


def _text(evaluator: WorkerEvaluator, state: str) -> str:
    text = evaluator.applier.text(state)
    if isinstance(text, Failure):
        raise text.as_error(f"The IR cannot be printed: {text.reason}.")
    return text
