"""Compares predicted times of networks, composed of the times of their kernels, with measured ones.

``python benchmarks/composition.py`` takes six networks and ten pipelines of each: a sequence of the catalog, and
random changes of it. Half of these set one schedule for all kernels, half a schedule for each kernel; both decide at
random on Winograd's algorithm and on cuts of fusion. For every pipeline there are three times of an inference:

* the sum over all calls of kernels, each of which was timed alone (what a search begins with),
* the sum over all calls, each of which was timed in its place in the network (what it corrects that with),
* the network's, timed beside the sequence as any candidate of a search.

The difference of the second and the third is what calls themselves cost, fitted as seconds for each call.
``benchmarks/results/composition.json`` gets all rows; ``--table`` prints Markdown from it.
"""

import argparse
import logging
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from provenance import read_rows, write_row
from scipy import stats

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Json, PassSpec, Pipeline
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import Built, NetworkKernels, WorkerEvaluator

RESULTS = Path(__file__).parent / "results" / "composition.json"
NETWORKS = {
    "resnet18": "nhwc-schedule-cpu",
    "resnet50": "nhwc-schedule-cpu",
    "mobilenet_v2": "nhwc-schedule-cpu",
    "ssd_mobilenet": "nhwc-schedule-cpu",
    "bert_base_16": "schedule-cpu",
    "gpt2": "schedule-cpu",
}
"""The sequence to change, by network."""
SCHEDULE, WINOGRAD, CUT = "ScheduleCPU", "Winograd", "CutFusion"
BUILD = BuildOptions(opt_level=0)

_log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> None:
    """Measure networks one by one and write the JSON after each, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"built-in networks; by default {' '.join(NETWORKS)}")
    parser.add_argument("--pipelines", type=int, default=10, help="of each network (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--table", action="store_true", help="print the Markdown of the JSON file")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    for name in [] if arguments.table else arguments.networks or NETWORKS:
        with passsearch.session(f"zoo:{name}", toolchain=arguments.toolchain) as evaluator:
            pipelines = random_pipelines(evaluator, NETWORKS[name], number=arguments.pipelines, seed=arguments.seed)
            rows = measure(evaluator, pipelines)
        write_row(RESULTS, "networks", name=name, row={"rows": rows}, session=evaluator.session)
    print(table(read_rows(RESULTS, "networks")))


def random_pipelines(evaluator: WorkerEvaluator, sequence: str, *, number: int, seed: int) -> Iterator[Pipeline]:
    """Yield a sequence of the catalog and random changes of it."""
    catalog, rng = evaluator.session.catalog, random.Random(seed)
    begin = catalog.sequence(sequence).pipeline
    yield begin
    parameter = catalog.entry(SCHEDULE).kernel_parameter
    assert parameter
    grid = [dict(zip(parameter.per_kernel, values, strict=True)) for values in product(*parameter.per_kernel.values())]
    for turn in range(number - 1):
        pipeline = begin
        if any(step.name == "ConvertLayout" for step in begin.passes):
            pipeline = _with_regions(evaluator, pipeline, WINOGRAD, rng)
        pipeline = _with_regions(evaluator, pipeline, CUT, rng)
        place = [step.name for step in pipeline.passes].index(SCHEDULE)
        if turn % 2:
            network = evaluator.kernels(_state(evaluator, Pipeline(pipeline.passes[:place])))
            assert isinstance(network, NetworkKernels)
            choices = {kernel.name: _set(rng.choice(grid)) for kernel in network.kernels if kernel.operations}
            step = PassSpec.of(SCHEDULE, **{parameter.name: {name: each for name, each in choices.items() if each}})
        else:
            step = PassSpec.of(SCHEDULE, **_set(rng.choice(grid)))
        yield Pipeline((*pipeline.passes[:place], step, *pipeline.passes[place + 1 :]))


def _with_regions(evaluator: WorkerEvaluator, pipeline: Pipeline, name: str, rng: random.Random) -> Pipeline:
    """Return a pipeline in which a pass has a random value for each of its regions."""
    entry = evaluator.session.catalog.entry(name)
    parameter = entry.regional_parameter
    assert parameter
    names = [step.name for step in pipeline.passes]
    place = next(names.index(other) for other in (name, *entry.before) if other in names)
    before, after = pipeline.passes[:place], pipeline.passes[place + (names[place] == name) :]
    regions = evaluator.regions(_state(evaluator, Pipeline(before)), parameter.regions)
    if isinstance(regions, Failure) or not regions:
        return pipeline
    values = {region.key: rng.choice(parameter.region_values) for region in regions}
    listed = [*sorted(int(key) for key, value in values.items() if value)] if parameter.type == "list" else values
    argument: Json = listed  # type: ignore[assignment]
    return Pipeline((*before, PassSpec.of(name, **{parameter.name: argument}), *after))


def _set(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values that are no defaults."""
    return {name: value for name, value in values.items() if value is not None}


def _state(evaluator: WorkerEvaluator, pipeline: Pipeline) -> str:
    state = evaluator.reach(pipeline)
    if isinstance(state, Failure):
        raise SystemExit(f"{pipeline}: {state.reason}")
    return state


def measure(evaluator: WorkerEvaluator, pipelines: Iterator[Pipeline]) -> list[dict[str, Any]]:
    """Return a row for each pipeline that builds and runs."""
    rows: list[dict[str, Any]] = []
    reference: Built | None = None
    for pipeline in pipelines:
        candidate = Candidate(pipeline, BUILD)
        built = evaluator.build(_state(evaluator, pipeline), candidate)
        if isinstance(built, Failure):
            _log.warning("%s: %s", pipeline, built.reason)
            rows.append({"pipeline": str(pipeline), "failure": built.to_json()})
            continue
        reference = reference or built
        samples = evaluator.sample(reference, built)
        assert not isinstance(samples, Failure)
        alone_s, calls = predict(evaluator, pipeline)
        (places,) = evaluator.in_places([candidate])
        row = {
            "pipeline": str(pipeline),
            "calls": calls,
            "alone_s": alone_s,
            "places_s": math.fsum(places.values()),
            "measured_s": median(samples.candidate),
        }
        _log.info("%s", {name: value for name, value in row.items() if name != "pipeline"})
        rows.append(row)
        if built is not reference:
            evaluator.discard(built)
    return rows


def predict(evaluator: WorkerEvaluator, pipeline: Pipeline) -> tuple[float | None, int]:
    """Return the sum of the times of kernels alone and the number of calls; ``None`` if a kernel does not run alone."""
    place = [step.name for step in pipeline.passes].index(SCHEDULE)
    network = evaluator.kernels(_state(evaluator, Pipeline(pipeline.passes[:place])))
    assert isinstance(network, NetworkKernels)
    arguments = dict(pipeline.passes[place].argument_values)
    kernels: Any = arguments.pop("kernels", None) or {}
    seconds = [
        _alone_s(evaluator, network, kernel, {**arguments, **kernels.get(kernel.name, {})})
        for kernel in network.kernels
    ]
    calls = sum(kernel.calls for kernel in network.kernels)
    return (None if None in seconds else math.fsum(each for each in seconds if each is not None)), calls


def _alone_s(
    evaluator: WorkerEvaluator, network: NetworkKernels, kernel: Kernel, arguments: Mapping[str, Json]
) -> float | None:
    """Return the seconds of all calls of a kernel alone."""
    times = evaluator.variants(network, kernel, [PassSpec.of(SCHEDULE, **arguments)])
    return kernel.calls * next(iter(times.values())) if times else None


def table(networks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: by network the rank correlations and errors of both sums, then the errors of all networks."""
    rows = {name: [row for row in each["rows"] if row.get("alone_s")] for name, each in networks.items()}
    everything = [row for each in rows.values() for row in each]
    if not everything:
        return "no network is measured"
    per_call_s = fitted_call_s(everything)
    lines = [
        f"{1e6 * per_call_s:.1f} us for each call beside the kernel itself",
        "",
        "| network | pipelines | slowest / fastest | rank correlation alone | in places | error alone | in places |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, each in [*rows.items(), ("all", everything)]:
        measured = [row["measured_s"] for row in each]
        sums = [[row[kind] + per_call_s * row["calls"] for row in each] for kind in ("alone_s", "places_s")]
        # Between networks the order is no achievement.
        is_one = name in rows
        ranks = [f"{stats.spearmanr(predicted, measured).statistic:.3f}" if is_one else "" for predicted in sums]
        errors = [f"{100 * _median_error(predicted, measured):.1f} %" for predicted in sums]
        cells = [name, str(len(each)), f"{max(measured) / min(measured):.2f}", *ranks, *errors]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def fitted_call_s(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds that a call costs beside its kernel: the median over pipelines."""
    return float(np.median([(row["measured_s"] - row["places_s"]) / row["calls"] for row in rows]))


def _median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    return median(abs(one / other - 1) for one, other in zip(predicted, measured, strict=True))


if __name__ == "__main__":
    main(sys.argv[1:])
