"""The named sequences of the catalog, reached through the states of a search and in a process of their own."""

import logging
from collections.abc import Callable, Sequence

from passsearch.catalog import NamedSequence
from passsearch.core import Failure, Pipeline
from passsearch.evaluate.evaluator import WorkerEvaluator
from passsearch.results import CheckedSequence

_log = logging.getLogger(__name__)


def check_sequences(
    evaluator: WorkerEvaluator,
    sequences: Sequence[NamedSequence],
    *,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> tuple[CheckedSequence, ...]:
    """Reach the IR of every sequence twice on one network, and compare.

    One compiler applies all sequences, each from the last state that it shares with an earlier one, as in a search. A
    deployment applies one sequence in a process of its own.

    Args:
        evaluator: The network, opened without the fact cache: its facts are of other processes.
        sequences: Sequences to check; those for other devices are left out.
        progress: Callback; gets the sequence that is being checked.
    """
    kind = evaluator.session.device_kind
    fitting = [each for each in sequences if kind in _devices(evaluator, each)]
    results = []
    for number, sequence in enumerate(fitting):
        progress(f"reaching {sequence.name}", number, len(fitting))
        _log.info("reaching %s on %s twice", sequence.name, evaluator.session.model.name)
        results.append(_check(evaluator, sequence.name, sequence.pipeline))
    return tuple(results)


def _devices(evaluator: WorkerEvaluator, sequence: NamedSequence) -> set[str]:
    """Return the devices that every pass of a sequence is for."""
    devices = {"cpu", "gpu"} & set(sequence.devices or ("cpu", "gpu"))
    for step in sequence.pipeline.passes:
        devices &= set(evaluator.session.catalog.entry(step.name).devices or devices)
    return devices


def _check(evaluator: WorkerEvaluator, name: str, pipeline: Pipeline) -> CheckedSequence:
    network = evaluator.session.model.name
    shared, anew = evaluator.applier.reach(pipeline), evaluator.applier.compiler.reach_anew(pipeline)
    if isinstance(shared, Failure) and isinstance(anew, Failure):
        return CheckedSequence(name, network, refusal=shared.reason)
    if isinstance(shared, Failure) or isinstance(anew, Failure):
        refusal, where = (
            (shared, "through shared states") if isinstance(shared, Failure) else (anew, "in a new process")
        )
        reason = refusal.reason if isinstance(refusal, Failure) else ""
        return CheckedSequence(name, network, problem=f"it is refused {where} only: {reason}")
    # A state's name ends with "+" where another IR of the search has the same hash.
    if shared.rstrip("+") != anew:
        problem = f"a fresh process reaches another IR ({anew}) than a compiler with shared states ({shared})"
        return CheckedSequence(name, network, state=anew, problem=problem)
    return CheckedSequence(name, network, state=anew)
