"""Build and measure every state of a closed space: ``python benchmarks/measure_space.py zoo:resnet18 --passes …``.

Writes ``benchmarks/spaces/NAME.json.gz``: what ``explore`` writes, what every state consists of, and for every state
and build level the seconds to build and the throughput as a multiple of -O3's. All binaries are timed beside -O3 and
its twin, in several processes, each loading them in another order. Interrupted, the same command goes on.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measured import SPACES, write_space
from provenance import provenance, settle

from passsearch.core import Candidate, Failure
from passsearch.evaluate import FINAL_PLAN, Built, Evaluator
from passsearch.evaluate.closure import Closure
from passsearch.evaluate.exploration import Exploration, Limits
from passsearch.measure import process_ratio
from passsearch.search import BUILDS
from passsearch.search.certificate import space_document
from passsearch.search.pass_selection import analyze_network, explored_passes
from passsearch.store import Log

TOGETHER = 8
"""Binaries in one process, beside the baseline and its twin; each may be as large as the network's parameters."""


def main() -> None:
    """Explore, build, time, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--passes", required=True, help="as for `passsearch explore`")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--run", type=Path, required=True, help="folder for the log and what is built")
    parser.add_argument("--name", help="of the file; the network's by default")
    arguments = parser.parse_args()
    chosen = settle(arguments.model)
    arguments.run.mkdir(parents=True, exist_ok=True)
    with Log(arguments.run / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, arguments.run / "artifacts")
        try:
            steps, left_out = explored_passes(chosen, evaluator.summary, passes=[arguments.passes])
            growth = Exploration(
                evaluator, steps, limits=Limits(), compilers=chosen.explorers, progress=lambda *_: None
            ).run()
            closure = Closure.of(evaluator.graph, steps)
            say(f"{len(closure.states)} states in {growth.seconds:.0f} s")
            rows = list(built_states(evaluator, closure))
            timed(evaluator, rows, processes=arguments.processes)
            document = {
                **provenance(chosen),
                **space_document(
                    chosen,
                    closure,
                    growth=growth,
                    classes=analyze_network(chosen, evaluator.summary).class_names,
                    left_out=left_out,
                    remembered=False,
                ),
                "census": [dict(evaluator.census(state)) for state in closure.states],
                "level": 0.95,
                "processes": arguments.processes,
                "builds": [row for row, _ in rows],
            }
        finally:
            evaluator.close()
    file = SPACES / f"{arguments.name or chosen.model.name}.json.gz"
    write_space(file, document)
    say(f"wrote {file}")


def built_states(evaluator: Evaluator, closure: Closure) -> Iterator[tuple[dict[str, Any], Built | None]]:
    """Every state at every level; -O3 on the network as it is comes first."""
    pairs = [(state, build) for build in reversed(BUILDS) for state in range(len(closure.states))]
    for number, (state, build) in enumerate(pairs):
        pipeline, apply_s = closure.graph.cheapest(closure.states[state])
        candidate = Candidate(pipeline, build)
        built = evaluator.built(closure.states[state], candidate)
        row: dict[str, Any] = {"state": state, "opt_level": build.opt_level}
        if isinstance(built, Failure):
            yield {**row, "failure": built.to_json()}, None
        else:
            digests = {"binary": built.digest[:16], "kernels": built.kernels[:16]}
            seconds = {"apply_s": round(apply_s, 3), "build_s": round(built.seconds, 3)}
            yield {**row, **digests, **seconds, "deviation": built.agreement.deviation}, built
        say(f"built {number + 1} of {len(pairs)}")


def timed(evaluator: Evaluator, rows: Sequence[tuple[dict[str, Any], Built | None]], *, processes: int) -> None:
    """Adds the throughput of every binary, as a multiple of the first row's."""
    binaries = {built.digest: built for _, built in rows if built is not None}
    baseline = next(built for _, built in rows if built is not None)
    rest = [built for built in binaries.values() if built is not baseline]
    batches = [rest[start : start + TOGETHER] for start in range(0, len(rest), TOGETHER)]
    ratios: dict[str, Any] = {}
    for number, batch in enumerate(batches):
        for each in (baseline, *batch):
            if isinstance(evaluator.restore(each), Failure):
                raise SystemExit(f"{each.key} cannot be built again")
        folders = [str(each.folder) for each in (baseline, baseline, *batch)]
        answer = evaluator.time_fresh(
            f"batch:{';'.join(each.digest for each in batch)}", folders, plan=FINAL_PLAN, processes=processes
        )
        if isinstance(answer, Failure):
            raise SystemExit(f"timing failed: {answer.reason}")
        for place, built in enumerate([baseline, *batch], 1):
            ratios.setdefault(built.digest, []).append(ratio_document(answer["processes"], place))
        say(f"timed {number + 1} of {len(batches)}")
    for row, built in rows:
        if built is not None:
            each = ratios[built.digest][0]
            row |= {"ratio": 1.0, "interval": [1.0, 1.0]} if built.digest == baseline.digest else each
    twins = [each["ratio"] for each in ratios[baseline.digest]]
    say(f"-O3's twin read {min(twins):.4f} to {max(twins):.4f}")
    rows[0][0]["twins"] = ratios[baseline.digest]


def ratio_document(processes: Sequence[Sequence[Sequence[float]]], place: int) -> dict[str, Any]:
    """Throughput against the first artifact, the interval, and the ratio in every process."""
    ratio = process_ratio(processes, place)
    single = [min(process[0]) / min(process[place]) for process in processes]
    ends = [ratio.interval.low, ratio.interval.high]
    return {
        "ratio": round(ratio.value, 5),
        "interval": [round(end, 5) if math.isfinite(end) else None for end in ends],
        "by_process": [round(value, 5) for value in single],
    }


def say(text: str) -> None:
    """To standard error."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
