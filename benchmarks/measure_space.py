"""Builds and measures every state of a closed space: ``python benchmarks/measure_space.py zoo:resnet18 --passes …``.

Writes ``benchmarks/spaces/NAME.json.gz``: the certificate that ``explore`` writes, the operator counts of every state,
and for every state and build level the seconds to build and the throughput as a multiple of -O3's. All binaries are
timed beside -O3 and its twin in several processes, which load them in different orders. After an interruption the same
command continues.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from measured import SPACES, write_space
from provenance import provenance

import passsearch
from passsearch.core import Candidate, Failure
from passsearch.evaluate import (
    Built,
    Closure,
    Exploration,
    Limits,
    Samples,
    TimedArtifacts,
    TimingRequest,
    WorkerEvaluator,
)
from passsearch.measure import process_ratio
from passsearch.search import BUILDS, analyze_network, explored_passes
from passsearch.studies import space_document

MOST_BINARIES = 8
"""Binaries in one process, beside the baseline and its twin; each may be as large as the network's parameters."""

BuildRow: TypeAlias = tuple[dict[str, Any], Built | None]
"""A row of the file, and the artifact it describes; ``None`` where the build failed."""


def main() -> None:
    """Explore, build and time a space, and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--passes", required=True, help="as for `passsearch explore`")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--run", type=Path, required=True, help="folder for the log and the artifacts")
    parser.add_argument("--name", help="of the file; the network's by default")
    arguments = parser.parse_args()
    with passsearch.session(arguments.model, folder=arguments.run, remember=False) as evaluator:
        document = measure_space(evaluator, arguments.passes, processes=arguments.processes)
    file = SPACES / f"{arguments.name or evaluator.session.model.name}.json.gz"
    write_space(file, document)
    show(f"wrote {file}")


def measure_space(evaluator: WorkerEvaluator, passes: str, *, processes: int) -> dict[str, Any]:
    """Return the measured space of some passes."""
    session, summary = evaluator.session, evaluator.network.summary
    steps, left_out = explored_passes(session, summary, passes=[passes])
    growth = Exploration(
        evaluator.applier, steps, limits=Limits(), compilers=session.explorers, progress=lambda *_: None
    ).run()
    closure = Closure.of(evaluator.graph, steps)
    show(f"{len(closure.states)} states in {growth.seconds:.0f} s")
    rows = list(build_states(evaluator, closure))
    add_ratios(evaluator, rows, processes=processes)
    classes = analyze_network(session, summary).class_names
    return {
        **provenance(session),
        **space_document(
            session, closure, growth=growth, classes=classes, left_out=left_out, remembered=False, reference=None
        ),
        "census": [dict(evaluator.op_counts(state)) for state in closure.states],
        "level": 0.95,
        "processes": processes,
        "builds": [row for row, _ in rows],
    }


def build_states(evaluator: WorkerEvaluator, closure: Closure) -> Iterator[BuildRow]:
    """Build every state at every level; -O3 on the imported network comes first."""
    pairs = [(state, build) for build in reversed(BUILDS) for state in range(len(closure.states))]
    for number, (state, build) in enumerate(pairs):
        pipeline, apply_s = closure.graph.cheapest(closure.states[state])
        built = evaluator.build(closure.states[state], Candidate(pipeline, build))
        row: dict[str, Any] = {"state": state, "opt_level": build.opt_level}
        if isinstance(built, Failure):
            yield {**row, "failure": built.to_json()}, None
        else:
            digests = {"binary": built.digest[:16], "kernels": built.kernels[:16]}
            seconds = {"apply_s": round(apply_s, 3), "build_s": round(built.seconds, 3)}
            yield {**row, **digests, **seconds, "deviation": built.agreement.deviation}, built
        show(f"built {number + 1} of {len(pairs)}")


def add_ratios(evaluator: WorkerEvaluator, rows: Sequence[BuildRow], *, processes: int) -> None:
    """Time every binary, and add its throughput as a multiple of the first row's to its rows."""
    binaries = {built.digest: built for _, built in rows if built is not None}
    baseline = next(built for _, built in rows if built is not None)
    others = [built for built in binaries.values() if built is not baseline]
    batches = [others[start : start + MOST_BINARIES] for start in range(0, len(others), MOST_BINARIES)]
    ratios: dict[str, dict[str, Any]] = {}
    twins: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        twin, *batch_ratios = time_batch(evaluator, baseline, batch=batch, processes=processes)
        twins.append(twin)
        ratios |= zip((built.digest for built in batch), batch_ratios, strict=True)
        show(f"timed {number + 1} of {len(batches)}")
    ratios[baseline.digest] = {"ratio": 1.0, "interval": [1.0, 1.0]}
    for row, built in rows:
        if built is not None:
            row |= ratios[built.digest]
    values = [twin["ratio"] for twin in twins]
    show(f"-O3's twin: {min(values):.4f} to {max(values):.4f}")
    rows[0][0]["twins"] = twins


def time_batch(
    evaluator: WorkerEvaluator, baseline: Built, *, batch: Sequence[Built], processes: int
) -> list[dict[str, Any]]:
    """Return the ratios of the baseline's twin and of every binary in the batch to the baseline."""
    for built in (baseline, *batch):
        if isinstance(evaluator.restore(built), Failure):
            raise SystemExit(f"{built.key} cannot be built again")
    artifacts = TimedArtifacts(baseline.folder, tuple(built.folder for built in batch), twin=baseline.folder)
    key, plan = f"batch:{';'.join(built.digest for built in batch)}", evaluator.plans.final_rounds
    timed = evaluator.time_fresh(TimingRequest(key, artifacts, plan, processes=processes))
    if isinstance(timed, Failure):
        raise SystemExit(f"timing failed: {timed.reason}")
    samples = [[process.twin, *process.candidates] for process in timed.processes]
    baselines = [process.baseline for process in timed.processes]
    return [ratio_by_process(list(zip(baselines, column, strict=True))) for column in zip(*samples, strict=True)]


def ratio_by_process(pairs: Sequence[tuple[Samples, Samples]]) -> dict[str, Any]:
    """Return the throughput of a binary as a multiple of the baseline's, its interval, and the ratio in every process.

    Args:
        pairs: Samples of the baseline and of the binary, by process.
    """
    ratio = process_ratio(pairs)
    ends = [ratio.interval.low, ratio.interval.high]
    return {
        "ratio": round(ratio.value, 5),
        "interval": [round(end, 5) if math.isfinite(end) else None for end in ends],
        "by_process": [round(min(baseline) / min(binary), 5) for baseline, binary in pairs],
    }


def show(text: str) -> None:
    """Print to standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
