"""The steps of an ablation: the winner's shortest form, the passes added one by one, and each pass left out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from passsearch.core import NARROWING, Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate import Built
from passsearch.results import StepKind

KINDS: tuple[StepKind, ...] = get_args(StepKind)
LADDER, WITHOUT = KINDS
"""Kinds of steps."""

START = "start"
"""Name of the first step of the ladder."""


@dataclass(frozen=True)
class Step:
    """One pipeline of an ablation.

    Attributes:
        kind: ``LADDER`` or ``WITHOUT``.
        subject: The pass that was added or left out; ``None`` for the first step of the ladder, which has none.
        candidate: The pipeline with the winner's build options; its name is the name of the step.
        before: Name of the step that this one is compared with: the previous one of the ladder, or the winner. ``None``
            for the first step of the ladder, which is compared with the baseline.
        outcome: Its artifact or its failure; ``None`` while it is not built.
    """

    kind: StepKind
    subject: PassSpec | None
    candidate: Candidate
    before: str | None
    outcome: Built | Failure | None = None

    @property
    def name(self) -> str:
        """Name of the step: ``+Pass`` or ``-Pass``."""
        return self.candidate.name


def shortest_form(pipeline: Pipeline, reach: Callable[[Pipeline], object]) -> tuple[Pipeline, list[PassSpec]]:
    """Return the pipeline without passes that the final result does not need, and these passes.

    Passes are left out one after the other from the end, as long as the result stays the same. A pass that changes
    nothing leaves, and so does one whose work another pass does as well.

    Args:
        pipeline: The pipeline.
        reach: Returns what a pipeline leads to, compared by equality: the state, or the binary.
    """
    result, dropped = reach(pipeline), []
    for place in reversed(range(len(pipeline))):
        shorter = _without(pipeline, place)
        if reach(shorter) == result:
            dropped.append(pipeline.passes[place])
            pipeline = shorter
    return pipeline, dropped[::-1]


def ablation_steps(winner: Candidate) -> list[Step]:
    """Return the ladder up to the winner, and then the winner without each of its passes."""
    passes, names = winner.pipeline.passes, Counter[str]()
    steps = [Step(LADDER, None, replace(winner, pipeline=Pipeline(), name=START), None)]
    for number, step in enumerate(passes, start=1):
        candidate = replace(winner, pipeline=Pipeline(passes[:number]), name=_name(f"+{step.name}", names))
        steps.append(Step(LADDER, step, candidate, steps[-1].name))
    top = steps[-1].name
    for place, step in enumerate(passes):
        candidate = replace(winner, pipeline=_without(winner.pipeline, place), name=_name(f"-{step.name}", names))
        steps.append(Step(WITHOUT, step, candidate, top))
    return steps


def _without(pipeline: Pipeline, place: int) -> Pipeline:
    left_out, later = pipeline.passes[place], pipeline.passes[place + 1 :]
    if left_out.name == NARROWING:
        later = tuple(_without_copies(step, left_out) for step in later)
    return Pipeline(pipeline.passes[:place] + later)


def _without_copies(step: PassSpec, narrowing: PassSpec) -> PassSpec:
    """Return a pass without what it does to kernels that are there for weights in fewer bits only."""
    copies = tuple(
        f"{name.partition(':')[0]}_{own['storage']}"
        for name, own in _kernels(narrowing).items()
        if ":" in name and "storage" in own
    )
    rest, kernels = step.argument_values, _kernels(step)
    kept = {name: own for name, own in kernels.items() if not name.startswith(copies)}
    if len(kept) == len(kernels):
        return step
    del rest["kernels"]
    return PassSpec.of(step.name, **rest, **({"kernels": kept} if kept else {}))


def _kernels(step: PassSpec) -> dict[str, Any]:
    kernels = step.argument_values.get("kernels")
    return kernels if isinstance(kernels, dict) else {}


def _name(text: str, names: Counter[str]) -> str:
    """Return a name that no other step has, as a pipeline may have one pass twice."""
    names[text] += 1
    return text if names[text] == 1 else f"{text} ({names[text]})"


def changed_kernels(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return how many kernels differ between two builds, and the names of those that only the second has.

    Args:
        before: Hash of each kernel by name.
        after: The same of the second build.
    """
    new, old = Counter(after.values()) - Counter(before.values()), Counter(before.values()) - Counter(after.values())
    names = []
    for name, kernel in after.items():
        if new[kernel] > 0:
            new[kernel] -= 1
            names.append(name)
    return max(len(names), old.total()), names


def built_steps(steps: Sequence[Step]) -> dict[str, Built]:
    """Return the artifacts of the steps that were built, by name."""
    return {step.name: step.outcome for step in steps if isinstance(step.outcome, Built)}
