"""Intervals of two fresh compiles against the truth.

``python -m benchmarks.measurement.fresh_pairs zoo:resnet_tiny --load 3`` compiles two pipelines afresh, again and
again, and times each pair in new processes, as one repetition of a confirmation does; ``--load`` keeps as many other
processes busy meanwhile. Two neighbouring repetitions are one short confirmation. Its interval should hold the ratio
that all other repetitions give together, by both estimators and under both conditions.
``benchmarks/results/fresh_pairs.json`` has the samples of every process; a repetition in it is not measured again.
``--table`` prints how many intervals hold the truth, by rule.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import passsearch
from benchmarks.common import RESULTS, busy, markdown, note, options, provenance, read, write
from passsearch.api.common import read_candidate
from passsearch.core import Failure
from passsearch.evaluate import TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import log_ratio, log_ratio_at_end, log_ratio_of_medians, mean_interval

ESTIMATORS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "fastest": log_ratio,
    "median": log_ratio_of_medians,
    "last rounds": log_ratio_at_end,
}
PROCESSES = 2
"""Timing processes of a repetition: the fewest of a confirmation."""


def repetition(evaluator: WorkerEvaluator, pipelines: Sequence[str], *, turn: int, condition: str) -> dict[str, Any]:
    """Return the samples of one pair of fresh compiles, by process and artifact, and the digests of the binaries."""
    compiles = []
    for place, text in enumerate(pipelines):
        candidate = read_candidate(evaluator.session, text, trust=False)
        compiled = evaluator.compile_fresh(f"{condition}-{turn}-{place}", candidate, timing_key="", kinds=())
        assert not isinstance(compiled, Failure), compiled
        compiles.append(compiled)
    plan = replace(evaluator.plans.final_rounds, seed=1000 + turn)
    artifacts = TimedArtifacts(compiles[0].folder, (compiles[1].folder,))
    request = TimingRequest(f"{condition} {turn}", artifacts, plan, processes=PROCESSES, turn=turn * PROCESSES)
    timed = evaluator.time_fresh(request)
    assert not isinstance(timed, Failure), timed
    return {
        "digests": [compiled.digest for compiled in compiles],
        "processes": [[list(process.baseline), list(process.candidates[0])] for process in timed.processes],
        "foreign_percent": [process.conditions["foreign_percent"] for process in timed.processes],
    }


def covered(logs: Sequence[Sequence[float]], state: float = 0.0) -> str:
    """Return how many intervals of two neighbouring repetitions hold the mean of all others.

    Args:
        logs: The log-ratios of the processes of each repetition.
        state: With another number than 0, neighbours are left out whose means differ by more than this log-ratio: the
            machine changed its state between them.
    """
    hits, number = 0, 0
    for place in range(len(logs) - 1):
        own = [*logs[place], *logs[place + 1]]
        others = [value for other, values in enumerate(logs) if other not in (place, place + 1) for value in values]
        near = [value for value in others if not state or abs(value - fmean(own)) <= state]
        if near and not (state and max(own) - min(own) > state):
            _, interval = mean_interval(own)
            number += 1
            hits += interval.low <= fmean(near) <= interval.high
    return f"{hits} of {number}"


def table(document: Mapping[str, Any]) -> str:
    """Return how many intervals hold the truth as Markdown."""
    lines = []
    for name, row in document.items():
        for title, estimator in ESTIMATORS.items():
            logs = [[estimator(*process) for process in each["processes"]] for each in row["repetitions"]]
            ratio = math.exp(fmean(value for each in logs for value in each))
            # Loaded, processes differ by more than the two states that an idle machine has.
            state = math.log(1.5) if not row["load"] else 0.0
            lines.append((name, title, f"{ratio:.2f}", covered(logs), covered(logs, state)))
    return markdown(("network, condition", "estimator", "ratio", "all", "within one state of the machine"), lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("model", "zoo:resnet_tiny"),
        toolchain="relax",
        pipelines="default-passes,nhwc-schedule-cpu",
        repetitions=24,
        load=(0, "number of other processes that are busy"),
        out=RESULTS / "fresh_pairs.json",
        table=(False, "print the Markdown from the file"),
    )
    document = read(arguments.out)
    if arguments.table:
        print(table(document))
        return
    condition = "loaded" if arguments.load else "idle"
    row = document.setdefault(f"{arguments.model} {condition}", {"pipelines": arguments.pipelines, "repetitions": []})
    with busy(arguments.load), passsearch.session(arguments.model, toolchain=arguments.toolchain) as evaluator:
        row |= {"load": arguments.load, **provenance(evaluator.session)}
        for turn in range(len(row["repetitions"]), arguments.repetitions):
            pipelines = arguments.pipelines.split(",")
            row["repetitions"].append(repetition(evaluator, pipelines, turn=turn, condition=condition))
            write(arguments.out, document)
            note(f"{condition}: repetition", turn + 1, arguments.repetitions)


if __name__ == "__main__":
    main()
