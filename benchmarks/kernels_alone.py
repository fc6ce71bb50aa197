"""Compares the times of schedules of kernels that run alone with those in their places in the network.

``python benchmarks/kernels_alone.py bert_base_16 resnet18`` schedules each product and convolution of a sequence in
ten ways and times them as a search does: alone, and where the network calls them. A search tries schedules alone, so
those times must order the schedules as their places do. ``benchmarks/results/kernels_alone.json`` gets a row for each
kernel; ``--table`` prints Markdown from it.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provenance import read_rows, write_row
from scipy.stats import spearmanr

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Json, PassSpec, Pipeline
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import NetworkKernels, WorkerEvaluator

RESULTS = Path(__file__).parent / "results" / "kernels_alone.json"
SCHEDULE = "ScheduleCPU"
SETTINGS: tuple[dict[str, Json], ...] = (
    {},
    {"rows": 8},
    {"vectors": 1},
    {"rows": 16, "vectors": 2},
    {"rows": 14, "vectors": 2, "keep_weights": True},
    {"vectors": 3, "prefetch": 8},
    {"prefetch": 0},
    {"keep_weights": True},
    {"keep_weights": False},
    {"rows": 16, "vectors": 2, "keep_weights": False, "prefetch": 0},
)
SEQUENCES = dict.fromkeys(("bert_base", "bert_base_16", "gpt2"), "schedule-cpu")
"""The sequence of a network that has no convolutions."""
BUILD = BuildOptions(opt_level=0)


def main(argv: Sequence[str]) -> None:
    """Measure networks one by one and write the JSON after each, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", help="built-in networks")
    parser.add_argument("--sequence", default="", help="of the catalog; nhwc- or schedule-cpu by default")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--table", action="store_true", help="print the Markdown of the JSON file")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    for name in [] if arguments.table else arguments.networks:
        with passsearch.session(f"zoo:{name}", toolchain=arguments.toolchain) as evaluator:
            sequence = arguments.sequence or SEQUENCES.get(name, "nhwc-schedule-cpu")
            row = {"sequence": sequence, "kernels": measure(evaluator, sequence)}
        write_row(RESULTS, "networks", name=name, row=row, session=evaluator.session)
    print(table(read_rows(RESULTS, "networks"), arguments.networks))


def measure(evaluator: WorkerEvaluator, sequence: str) -> list[dict[str, Any]]:
    """Return the seconds of every product and convolution by every schedule that runs, alone and in its place."""
    pipeline = evaluator.session.catalog.sequence(sequence).pipeline
    place = [step.name for step in pipeline.passes].index(SCHEDULE)
    state = evaluator.reach(Pipeline(pipeline.passes[:place]))
    assert isinstance(state, str), state
    network = evaluator.kernels(state)
    assert isinstance(network, NetworkKernels), network
    kernels = [kernel for kernel in network.kernels if kernel.operations and kernel.has_constants]
    steps = [PassSpec.of(SCHEDULE, **settings) for settings in SETTINGS]
    alone = {kernel.name: evaluator.variants(network, kernel, steps) for kernel in kernels}
    scheduled = [_scheduled(kernels, settings) for settings in SETTINGS]
    before, after = pipeline.passes[:place], pipeline.passes[place + 1 :]
    candidates = [Candidate(Pipeline((*before, step, *after)), BUILD) for step in scheduled]
    places = evaluator.in_places(candidates)
    assert len(places) == len(candidates), "a schedule of all kernels does not run"
    rows = []
    for kernel in kernels:
        times = alone[kernel.name]
        assert not isinstance(times, Failure), times
        both = [
            (times[step] * kernel.calls, each.kernels[kernel.name])
            for step, each in zip(steps, places, strict=True)
            if step in times
        ]
        alone_s, place_s = zip(*both, strict=True)
        rows.append({"kernel": kernel.name, "bytes": kernel.bytes, "alone_s": alone_s, "place_s": place_s})
    return rows


def _scheduled(kernels: Sequence[Kernel], settings: Mapping[str, Json]) -> PassSpec:
    """Return the pass that schedules these kernels so, and all others as it does without arguments."""
    own: dict[str, Json] = {kernel.name: dict(settings) for kernel in kernels}
    return PassSpec.of(SCHEDULE, kernels=own) if settings else PassSpec.of(SCHEDULE)


def table(networks: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return a row per network: the rank correlation, weighted by kernels' times, and what choosing alone costs."""
    heads = "| network | kernels | rank correlation | chosen alone / best | default / best | alone / in place |"
    lines = [heads, "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name in names:
        # All schedules of some kernels are one, which has no order.
        rows = [row for row in networks[name]["kernels"] if len(set(row["alone_s"])) > 1]
        best_s = sum(min(row["place_s"]) for row in rows)
        chosen_s = sum(row["place_s"][row["alone_s"].index(min(row["alone_s"]))] for row in rows)
        default_s, alone_s = (sum(row[key][0] for row in rows) for key in ("place_s", "alone_s"))
        weights = [row["place_s"][0] / default_s for row in rows]
        order = sum(weight * _correlation(row) for weight, row in zip(weights, rows, strict=True))
        cells = [chosen_s / best_s, default_s / best_s, alone_s / default_s]
        lines.append(f"| {name} | {len(rows)} | {order:.2f} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    return "\n".join(lines)


def _correlation(row: Mapping[str, Any]) -> float:
    return float(spearmanr(row["alone_s"], row["place_s"])[0])


if __name__ == "__main__":
    main(sys.argv[1:])
