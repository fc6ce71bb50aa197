"""The first pass that made outputs wrong, found by bisection, and a reproducer for the compiler's developers."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from passsearch.core import Candidate, Failure, PassSpec, TimeLimit
from passsearch.dialects.case_inputs import case_inputs
from passsearch.evaluate import DEVIATION, Built, WorkerEvaluator
from passsearch.store import write_json

REPORT = "report.json"
MOST_NAME = 80
"""Longest part of a folder's name that names passes, in characters."""

REPRODUCERS = 3
"""Largest number of reproducers in a run folder; each holds the network's constants twice."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FaultyPasses:
    """The passes of a pipeline that made its outputs wrong.

    Attributes:
        candidate: The candidate with wrong outputs.
        steps: The passes between the last state whose outputs are right and the first whose outputs are wrong: one,
            unless states between them do not build.
        before: That last state.
        after: That first state.
        failure: The failure of the first state.
    """

    candidate: Candidate
    steps: tuple[PassSpec, ...]
    before: str
    after: str
    failure: Failure

    @property
    def reproducer_folder(self) -> str:
        """Path of the reproducer's folder, relative to the run folder."""
        names = "-".join(step.name for step in self.steps)
        # The same passes may go wrong with other arguments, or on another state.
        digest = crc32("|".join((*map(str, self.steps), self.before, self.after)).encode())
        return f"reproducers/{names[:MOST_NAME]}-{digest:08x}"


def is_deviation(failure: Failure) -> bool:
    """Return whether outputs of a candidate deviated in their values; another type or shape explains itself."""
    return failure.reason.startswith(DEVIATION)


def write_reproducers(
    evaluator: WorkerEvaluator,
    failures: Sequence[tuple[Candidate, Failure]],
    *,
    folder: Path,
    kept: Sequence[Built],
    time_limit: TimeLimit,
    context: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Write a reproducer of each pass that made outputs deviate, and return the passes in the form of the result.

    Args:
        evaluator: The evaluator of the run.
        failures: Failed candidates.
        folder: The run folder.
        kept: Artifacts that stay; all others make room where there is little.
        time_limit: The run's time limit.
        context: Compiler, target and network, in the form of the result.
    """
    return [
        {
            "passes": [str(step) for step in faulty.steps],
            "folder": faulty.reproducer_folder,
            "reason": faulty.failure.reason,
        }
        for faulty in _find_faulty_passes(evaluator, failures, kept=kept, time_limit=time_limit)
        if _write_reproducer(evaluator, faulty, folder=folder / faulty.reproducer_folder, context=context)
    ]


def _find_faulty_passes(
    evaluator: WorkerEvaluator,
    failures: Sequence[tuple[Candidate, Failure]],
    *,
    kept: Sequence[Built],
    time_limit: TimeLimit,
) -> list[FaultyPasses]:
    """Return the passes that made outputs of failed candidates deviate, while time is left."""
    faulty: list[FaultyPasses] = []
    for candidate, failure in failures:
        steps = set(candidate.pipeline.passes)
        # A pipeline that contains all passes of an earlier finding most likely fails for the same reason.
        explained = any(steps >= set(earlier.steps) for earlier in faulty)
        unexplained = len(faulty) < REPRODUCERS and not explained and not time_limit.is_over
        if is_deviation(failure) and unexplained:
            evaluator.make_room(kept)
            states = evaluator.applier.states(candidate.pipeline)
            faulty += filter(None, [bisect_wrong_result(candidate, states, evaluator.build)])
    return faulty


def bisect_wrong_result(
    candidate: Candidate, states: Sequence[str], build: Callable[[str, Candidate], Built | Failure]
) -> FaultyPasses | None:
    """Find the passes that made a pipeline's outputs wrong; every probe costs a build, unless the run has made it.

    Return ``None`` where outputs are wrong before the first pass: then the build is wrong. States that do not build
    prove nothing.

    Args:
        candidate: The candidate with wrong outputs.
        states: The root and the state after every pass.
        build: Builds a state and judges its outputs.
    """
    outcomes: dict[int, Failure | None] = {}

    def is_wrong(place: int) -> bool | None:
        if place not in outcomes:
            built = build(states[place], candidate)
            outcomes[place] = built if isinstance(built, Failure) else None
        failure = outcomes[place]
        return False if failure is None else True if failure.kind == "wrong_result" else None

    # The first place is right and the last one is wrong throughout the loop, so it ends at a pass that made outputs
    # wrong, even if passes in between repaired them.
    right, wrong = 0, len(states) - 1
    if is_wrong(right) is not False or not is_wrong(wrong):
        return None
    while (probe := next(_probes(right, wrong, is_wrong=is_wrong), None)) is not None:
        _log.debug("outputs after %d of %d passes: %s", probe, len(states) - 1, "wrong" if is_wrong(probe) else "right")
        right, wrong = (right, probe) if is_wrong(probe) else (probe, wrong)
    failure = outcomes[wrong]
    assert failure is not None
    return FaultyPasses(candidate, candidate.pipeline.passes[right:wrong], states[right], states[wrong], failure)


def _probes(right: int, wrong: int, *, is_wrong: Callable[[int], bool | None]) -> Iterator[int]:
    """Iterate over the places between two whose states build, the middle first."""
    # A generator: every place that it is asked for costs a build, and usually the middle one suffices.
    middle = (right + wrong) // 2
    ordered = sorted(range(right + 1, wrong), key=lambda place: abs(place - middle))
    return (place for place in ordered if is_wrong(place) is not None)


def _write_reproducer(
    evaluator: WorkerEvaluator, faulty: FaultyPasses, *, folder: Path, context: Mapping[str, Any]
) -> bool:
    """Write the IR before and after, the inputs and the passes to a folder; return whether the IR could be written."""
    # The report is written last: where it exists, an earlier start of the run has written the rest.
    if (folder / REPORT).exists():
        return True
    _log.info("writing a reproducer of %s to %s", ", ".join(map(str, faulty.steps)), folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, state in (("before.json", faulty.before), ("after.json", faulty.after)):
        if evaluator.applier.save(state, folder / name) is not None:
            return False
    arrays = {
        f"{case}/{name}": array
        for case in evaluator.builder.verification.cases
        for name, array in case_inputs(evaluator.network.check, case).items()
    }
    np.savez_compressed(folder / "inputs.npz", **arrays)  # type: ignore[arg-type]
    factories = evaluator.session.factories
    report = {
        "passes": [
            {"name": step.name, "arguments": step.argument_values, "factory": factories[step.name]}
            for step in faulty.steps
        ],
        "build": faulty.candidate.build.to_json(),
        "pipeline": str(faulty.candidate.pipeline),
        "failure": faulty.failure.to_json(),
        **context,
    }
    write_json(folder / REPORT, report)
    return True
