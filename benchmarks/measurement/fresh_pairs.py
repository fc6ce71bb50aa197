"""Intervals of two fresh compiles against the truth.

``python -m benchmarks.measurement.fresh_pairs --load 3`` compiles the two pipelines of each of twelve pairs afresh,
again and again, and times them in new processes, as one repetition of a confirmation does; ``--load`` keeps as many
other processes busy meanwhile. All pairs have their turn before one has further repetitions, so that those of a pair
lie minutes apart. Two neighbouring repetitions are one short confirmation. Its interval should hold the ratio that all
other repetitions give together, by every estimator and under both conditions. That ratio has noise of its own, so of
intervals that hold the truth at 95 %, some 90 % hold it.
``benchmarks/results/fresh_pairs.json`` has the samples of every process; a repetition in it is not measured again.
``--table`` prints how many intervals hold the truth.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import median
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
TURN = 3
"""Repetitions of a pair before the next one has its turn."""
PAIRS = (
    "zoo:resnet_tiny default-passes nhwc-schedule-cpu",
    "zoo:resnet_tiny nhwc-schedule-cpu winograd-schedule-cpu",
    "zoo:vgg_tiny default-passes schedule-cpu",
    "zoo:vgg_tiny schedule-cpu nhwc-schedule-cpu",
    "zoo:unet_tiny schedule-cpu nhwc-schedule-cpu",
    "zoo:bert_tiny default-passes schedule-cpu",
    "zoo:bert_tiny schedule-cpu combine-schedule-cpu",
    "zoo:vit_tiny default-passes combine-schedule-cpu",
    "zoo:gpt2_tiny schedule-cpu decoder-schedule-cpu",
    "zoo:llama_tiny default-passes decoder-schedule-cpu",
    "zoo:residual_x3 nhwc-schedule-cpu winograd-schedule-cpu",
    "zoo:depthwise_x3 schedule-cpu nhwc-schedule-cpu",
)
"""Network, baseline and candidate of each pair: gains from far above 2 to none."""


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


def covered(logs: Sequence[Sequence[float]]) -> tuple[int, int]:
    """Return how many intervals of two neighbouring repetitions hold the median of all others, and of how many.

    The median, because one process in thirty runs in another state of the machine, with half the speed.

    Args:
        logs: The log-ratios of the processes of each repetition.
    """
    hits, number = 0, len(logs) - 1
    for place in range(number):
        _, interval = mean_interval([*logs[place], *logs[place + 1]])
        others = [value for other, values in enumerate(logs) if other not in (place, place + 1) for value in values]
        hits += interval.low <= median(others) <= interval.high
    return hits, number


def table(document: Mapping[str, Any]) -> str:
    """Return how many intervals hold the truth as Markdown."""
    lines, counts = [], defaultdict[tuple[str, str], list[tuple[int, int]]](list)
    for name, row in document.items():
        for title, estimator in ESTIMATORS.items():
            logs = [[estimator(*process) for process in each["processes"]] for each in row["repetitions"]]
            ratio = math.exp(median(value for each in logs for value in each))
            hits, number = covered(logs)
            counts[row["condition"], title].append((hits, number))
            lines.append((name, title, f"{ratio:.2f}", f"{hits} of {number}"))
    for (condition, title), pairs in sorted(counts.items()):
        hits, number = map(sum, zip(*pairs, strict=True))
        lines.append((f"all, {condition}", title, "", f"{hits} of {number}"))
    return markdown(("pair, condition", "estimator", "ratio", "intervals that hold it"), lines)


def measure(pair: str, row: dict[str, Any], *, toolchain: str, until: int) -> Iterator[int]:
    """Add repetitions to the row of a pair; yield the number of each."""
    model, *pipelines = pair.split()
    with passsearch.session(model, toolchain=toolchain) as evaluator:
        row |= provenance(evaluator.session)
        for turn in range(len(row["repetitions"]), until):
            row["repetitions"].append(repetition(evaluator, pipelines, turn=turn, condition=row["condition"]))
            yield turn + 1


def main() -> None:
    arguments = options(
        __doc__,
        ("pairs", PAIRS),
        toolchain="relax",
        repetitions=2 * TURN,
        load=(0, "number of other processes that are busy"),
        out=RESULTS / "fresh_pairs.json",
        table=(False, "print the Markdown from the file"),
    )
    document = read(arguments.out)
    if arguments.table:
        print(table(document))
        return
    condition = "loaded" if arguments.load else "idle"
    new = {"condition": condition, "load": arguments.load}
    with busy(arguments.load):
        for until, pair in product(range(TURN, arguments.repetitions + 1, TURN), arguments.pairs):
            row = document.setdefault(f"{pair}, {condition}", {**new, "repetitions": []})
            for number in measure(pair, row, toolchain=arguments.toolchain, until=until):
                write(arguments.out, document)
                note(f"{pair}, {condition}: repetition", number, arguments.repetitions)


if __name__ == "__main__":
    main()
