"""The first pass that made outputs wrong, and a reproducer for the compiler's developers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import Candidate, Failure, PassSpec, TensorType
from passsearch.dialects.contract import case_inputs
from passsearch.evaluate.evaluator import Evaluator
from passsearch.store import write_json

REPORT = "report.json"


@dataclass(frozen=True)
class Culprit:
    """Where a pipeline went wrong.

    Attributes:
        candidate: What was found wrong.
        steps: The passes between the last state whose outputs are right and the first whose outputs are wrong: one,
            unless states between do not build.
        before: That last state.
        after: That first state.
        failure: What is wrong with it.
    """

    candidate: Candidate
    steps: tuple[PassSpec, ...]
    before: str
    after: str
    failure: Failure

    @property
    def folder(self) -> str:
        """Where its reproducer stands in the run folder."""
        return "reproducers/" + "-".join(step.name for step in self.steps)


def culprit(evaluator: Evaluator, candidate: Candidate) -> Culprit | None:
    """Bisect a pipeline whose outputs are wrong; every step costs a build, unless the run has made it already.

    ``None`` where the outputs are wrong before the first pass: then it is the build that is wrong. States that do not
    build say nothing.
    """
    states = evaluator.states(candidate.pipeline)
    outcomes: dict[int, Failure | None] = {}

    def wrong(place: int) -> bool | None:
        if place not in outcomes:
            built = evaluator.built(states[place], candidate)
            outcomes[place] = built if isinstance(built, Failure) else None
        failure = outcomes[place]
        return False if failure is None else True if failure.kind == "wrong_result" else None

    right, broken = 0, len(states) - 1
    if wrong(right) is not False or not wrong(broken):
        return None
    while (probe := next(_between(right, broken, wrong=wrong), None)) is not None:
        right, broken = (right, probe) if wrong(probe) else (probe, broken)
    failure = outcomes[broken]
    assert failure is not None
    return Culprit(candidate, candidate.pipeline.passes[right:broken], states[right], states[broken], failure)


def _between(right: int, broken: int, *, wrong: Callable[[int], bool | None]) -> Iterator[int]:
    """Places between two, the middle first, that can be told right from wrong."""
    middle = (right + broken) // 2
    ordered = sorted(range(right + 1, broken), key=lambda place: abs(place - middle))
    return (place for place in ordered if wrong(place) is not None)


def write_reproducer(evaluator: Evaluator, found: Culprit, *, folder: Path, told: Mapping[str, Any]) -> bool:
    """IR before and after, the inputs, and what was done, in one folder; whether the IR could be written.

    The report comes last: where it stands, an earlier start of the run has written all of it.

    Args:
        evaluator: Of the run.
        found: What to reproduce.
        folder: Made if need be.
        told: Compiler, target and network, as the result names them.
    """
    if (folder / REPORT).exists():
        return True
    folder.mkdir(parents=True, exist_ok=True)
    for name, state in (("before.json", found.before), ("after.json", found.after)):
        if not evaluator.save(state, folder / name):
            return False
    types = {name: TensorType(tuple(shape), dtype) for name, (shape, dtype) in evaluator.inputs.items()}
    arrays = {
        f"{case}/{name}": array
        for case in evaluator.subject.output_cases
        for name, array in case_inputs(types, case).items()
    }
    np.savez_compressed(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]
    report = {
        "passes": [
            {"name": step.name, "arguments": step.bound, "factory": evaluator.subject.factories[step.name]}
            for step in found.steps
        ],
        "build": found.candidate.build.to_json(),
        "pipeline": str(found.candidate.pipeline),
        "failure": found.failure.to_json(),
        **told,
    }
    write_json(folder / REPORT, report)
    return True
