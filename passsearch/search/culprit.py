"""The first pass that made outputs wrong, and a reproducer for the compiler's developers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import Candidate, Failure, PassSpec, TensorType
from passsearch.dialects.contract import case_inputs
from passsearch.search.evaluation import Evaluator
from passsearch.store import write_json


@dataclass(frozen=True)
class Culprit:
    """Where a pipeline went wrong.

    Attributes:
        candidate: What was found wrong.
        place: How many passes lead up to the culprit.
        before: The last state whose outputs are right.
        after: The state the culprit made of it.
        failure: What is wrong with it.
    """

    candidate: Candidate
    place: int
    before: str
    after: str
    failure: Failure

    @property
    def step(self) -> PassSpec:
        """The culprit."""
        return self.candidate.pipeline.passes[self.place]


def culprit(evaluator: Evaluator, candidate: Candidate) -> Culprit | None:
    """Bisect a pipeline whose outputs are wrong; every step costs a build, unless the run has made it already.

    ``None`` where the outputs are wrong before the first pass: then it is the build that is wrong. States that do not
    build say nothing, so the pair that is found may be further apart than one pass, never closer.
    """
    states = evaluator.states(candidate.pipeline)
    outcomes: dict[int, Failure | None] = {}

    def wrong(place: int) -> bool | None:
        if place not in outcomes:
            built = evaluator.built(states[place], candidate.build)
            outcomes[place] = built if isinstance(built, Failure) else None
        failure = outcomes[place]
        return False if failure is None else True if failure.kind == "wrong_result" else None

    right, broken = 0, len(states) - 1
    if wrong(right) is not False or not wrong(broken):
        return None
    while (probe := next(_between(right, broken, wrong), None)) is not None:
        right, broken = (right, probe) if wrong(probe) else (probe, broken)
    failure = outcomes[broken]
    assert failure is not None
    return Culprit(candidate, broken - 1, states[right], states[broken], failure)


def _between(right: int, broken: int, wrong: Callable[[int], bool | None]) -> Iterator[int]:
    """Places between two, the middle first, that can be told right from wrong."""
    middle = (right + broken) // 2
    ordered = sorted(range(right + 1, broken), key=lambda place: abs(place - middle))
    return (place for place in ordered if wrong(place) is not None)


def write_reproducer(evaluator: Evaluator, found: Culprit, folder: Path, told: Mapping[str, Any]) -> None:
    """IR before and after, the inputs, and what was done, in one folder.

    Args:
        evaluator: Of the run.
        found: What to reproduce.
        folder: Made if need be.
        told: Compiler, target and network, as the result names them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, state in (("before.json", found.before), ("after.json", found.after)):
        evaluator.save(state, folder / name)
    types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in evaluator.inputs.items()}
    arrays = {
        f"{case}/{name}": array
        for case in evaluator.subject.output_cases
        for name, array in case_inputs(types, case).items()
    }
    np.savez_compressed(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]
    report = {
        "pass": found.step.name,
        "arguments": found.step.bound,
        "factory": evaluator.subject.factories[found.step.name],
        "build": found.candidate.build.to_json(),
        "pipeline": str(found.candidate.pipeline),
        "failure": found.failure.to_json(),
        **told,
    }
    write_json(folder / "report.json", report)
