"""Compares predicted times of networks, composed of the times of their kernels, with measured ones.

``python benchmarks/composition.py`` takes six networks and ten pipelines of each: a sequence of the catalog, and
random changes of it. Half of these set one schedule for all kernels, half a schedule for each kernel; both decide at
random on Winograd's algorithm and on cuts of fusion. For every pipeline there are three times of an inference:

* the sum over all calls of kernels, each of which was timed alone (what a search begins with),
* the sum over all calls, each of which was timed in its place in the network (what it corrects that with),
* the network's, beside all others of the ten, in five processes.

The difference of the second and the third is what calls themselves cost, fitted as seconds for each call. A search
predicts a whole inference with an interval, from what inferences of the networks it has built took beside their
kernels; here each pipeline is predicted from the others of its network in that way.
``benchmarks/results/composition.json`` gets all rows, and the kernels of each network's own sequence, which show how
many of them other networks have too. ``--table`` prints Markdown from it, ``--draw FILE`` draws it.
"""

import argparse
import logging
import math
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from colours import COLOURS
from provenance import read_rows, write_row
from scipy import stats

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Json, PassSpec, Pipeline
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import NetworkKernels, TimedArtifacts, TimingRequest, WorkerEvaluator
from passsearch.measure import next_value_interval
from passsearch.search.composition import OTHER_PIPELINE

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
PROCESSES = 5
"""Number of processes that time the pipelines of a network."""

LINE = "#bdbdbd"
"""Colour of the line of right predictions, which no network has."""

_log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> None:
    """Measure networks one by one and write the JSON after each, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"built-in networks; by default {' '.join(NETWORKS)}")
    parser.add_argument("--pipelines", type=int, default=10, help="of each network (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--table", action="store_true", help="print the Markdown of the JSON file")
    parser.add_argument("--draw", type=Path, help="draw the JSON file to this file, as SVG")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    only_shows = arguments.table or arguments.draw
    for name in [] if only_shows else arguments.networks or NETWORKS:
        with passsearch.session(f"zoo:{name}", toolchain=arguments.toolchain) as evaluator:
            pipelines = random_pipelines(evaluator, NETWORKS[name], number=arguments.pipelines, seed=arguments.seed)
            row = {"kernels": kernels(evaluator, NETWORKS[name]), "rows": measure(evaluator, pipelines)}
        write_row(RESULTS, "networks", name=name, row=row, session=evaluator.session)
    networks = read_rows(RESULTS, "networks")
    print(table(networks), shared_kernels(networks), sep="\n\n")
    if arguments.draw:
        arguments.draw.write_text(picture(networks) + "\n")


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
    place, parameter = entry.place_in(pipeline), entry.regional_parameter
    assert parameter and place is not None
    regions = evaluator.regions(_state(evaluator, Pipeline(pipeline.passes[:place])), parameter.regions)
    if isinstance(regions, Failure) or not regions:
        return pipeline
    return entry.decide(pipeline, {region.key: rng.choice(parameter.region_values) for region in regions})


def _set(values: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values that are no defaults."""
    return {name: value for name, value in values.items() if value is not None}


def _state(evaluator: WorkerEvaluator, pipeline: Pipeline) -> str:
    state = evaluator.reach(pipeline)
    if isinstance(state, Failure):
        raise SystemExit(f"{pipeline}: {state.reason}")
    return state


def kernels(evaluator: WorkerEvaluator, sequence: str) -> dict[str, int]:
    """Return the number of calls by digest of a sequence's kernels, before they are scheduled."""
    pipeline = evaluator.session.catalog.sequence(sequence).pipeline
    place = [step.name for step in pipeline.passes].index(SCHEDULE)
    network = evaluator.kernels(_state(evaluator, Pipeline(pipeline.passes[:place])))
    assert isinstance(network, NetworkKernels)
    return {kernel.digest: kernel.calls for kernel in network.kernels}


def measure(evaluator: WorkerEvaluator, pipelines: Iterable[Pipeline]) -> list[dict[str, Any]]:
    """Return a row for each different network; all of them are timed side by side, in several processes."""
    rows: list[dict[str, Any]] = []
    built: dict[str, Candidate] = {}  # by digest
    folders: list[Path] = []
    for pipeline in pipelines:
        candidate = Candidate(pipeline, BUILD)
        known = evaluator.build(_state(evaluator, pipeline), candidate)
        # A build that an earlier run has made is known, and has no files here.
        artifact = known if isinstance(known, Failure) else evaluator.restore(known)
        if isinstance(artifact, Failure):
            _log.warning("%s: %s", pipeline, artifact.reason)
            rows.append({"pipeline": str(pipeline), "failure": artifact.to_json()})
        elif artifact.digest not in built:
            built[artifact.digest] = candidate
            folders.append(artifact.folder)
    candidates = [*built.values()]
    artifacts = TimedArtifacts(folders[0], tuple(folders[1:]))
    timed = evaluator.time_fresh(TimingRequest("|".join(built), artifacts, evaluator.plans.final_rounds, PROCESSES))
    assert not isinstance(timed, Failure)
    measured = [[process.baseline, *process.candidates] for process in timed.processes]
    places = evaluator.in_places(candidates)
    for number, candidate in enumerate(candidates):
        alone_s, calls = predict(evaluator, candidate.pipeline)
        row = {
            "pipeline": str(candidate.pipeline),
            "calls": calls,
            "alone_s": alone_s,
            "places_s": math.fsum(places[number].kernels.values()),
            "whole_s": places[number].whole_s,
            "measured_s": [median(process[number]) for process in measured],
            "fastest_s": [min(process[number]) for process in measured],
        }
        _log.info("%s", {name: value for name, value in row.items() if name != "pipeline"})
        rows.append(row)
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
    return None if isinstance(times, Failure) else kernel.calls * next(iter(times.values()))


def table(networks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: by network the rank correlations and errors of both sums, then the errors of all networks.

    "One process" is the rank correlation of a measurement in one process with those of all others: no prediction can be
    expected to do better than that.
    """
    rows = {name: [row for row in each["rows"] if row.get("alone_s")] for name, each in networks.items()}
    everything = [row for each in rows.values() for row in each]
    if not everything:
        return "no network is measured"
    per_call_s = fitted_call_s(everything)
    lines = [
        f"{1e6 * per_call_s:.1f} us for each call beside the kernel itself",
        "",
        "| network | pipelines | slowest / fastest | rank correlation alone | in places | one process | error alone "
        "| in places | in a search | in its interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, each in [*rows.items(), ("all", everything)]:
        measured = [median(row["measured_s"]) for row in each]
        sums = [[row[kind] + per_call_s * row["calls"] for row in each] for kind in ("alone_s", "places_s")]
        # Between networks the order is no achievement.
        is_one = name in rows
        ranks = [f"{_rank(predicted, measured):.3f}" if is_one else "" for predicted in sums]
        several = is_one and all(len(row["measured_s"]) > 1 for row in each)
        ranks.append(f"{agreement(each):.3f}" if several else "")
        errors = [f"{100 * _median_error(predicted, measured):.1f} %" for predicted in sums]
        search = ["", ""]
        if is_one and all("whole_s" in row for row in each):
            error, share = as_in_a_search(each)
            search = [f"{100 * error:.1f} %", f"{100 * share:.0f} %"]
        cells = [name, str(len(each)), f"{max(measured) / min(measured):.2f}", *ranks, *errors, *search]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def as_in_a_search(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the median error of predictions from two other pipelines, and the share of inferences in their intervals.

    A search times the pipeline that it begins with and one or two compositions in their places, and predicts the next
    one from what whole inferences of these take beside their kernels.
    """
    errors: list[float] = []
    inside: list[bool] = []
    for row in rows:
        measured = [math.log(seconds / row["places_s"]) for seconds in row["fastest_s"]]
        for pair in combinations([other for other in rows if other is not row], 2):
            overheads = [math.log(whole_s / other["places_s"]) for other in pair for whole_s in other["whole_s"]]
            mean, interval = next_value_interval(overheads, other_deviation=OTHER_PIPELINE)
            errors.append(abs(math.exp(mean - median(measured)) - 1))
            inside += [interval.low <= each <= interval.high for each in measured]
    return median(errors), fmean(inside)


def shared_kernels(networks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: by network its calls and different kernels, and how many of these the networks above have."""
    lines = ["| network | calls | different kernels | of these in a network above |", "| --- | ---: | ---: | ---: |"]
    known: set[str] = set()
    for name, row in networks.items():
        digests = row.get("kernels", {})
        lines.append(f"| {name} | {sum(digests.values())} | {len(digests)} | {len(known & digests.keys())} |")
        known |= digests.keys()
    return "\n".join(lines)


def picture(networks: Mapping[str, Mapping[str, Any]]) -> str:
    """Return predicted against measured times as SVG, as shares of the network's median measured time."""
    from passsearch.report.charts import Chart, chart_svg
    from passsearch.report.charts.chart import Axis, Point, Series

    rows = {name: [row for row in each["rows"] if row.get("alone_s")] for name, each in networks.items()}
    series = []
    for (name, each), colour in zip(rows.items(), COLOURS, strict=False):
        middle_s, per_call_s = median(median(row["measured_s"]) for row in each), fitted_call_s(each)
        points = []
        for row in each:
            measured, predicted = median(row["measured_s"]), row["places_s"] + per_call_s * row["calls"]
            text = f"{name}: {1e3 * measured:.2f} ms measured, {1e3 * predicted:.2f} ms predicted"
            points.append(Point(measured / middle_s, predicted / middle_s, text))
        series.append(Series(name, tuple(points), colour=colour))
    ends = [
        end(value for each in series for point in each.points for value in (point.x, point.y)) for end in (min, max)
    ]
    line = Series("as predicted", tuple(Point(end, end) for end in ends), kind="line", colour=LINE)
    axes = (Axis(f"{which} / median measured of the network") for which in ("measured", "predicted"))
    return chart_svg(Chart("Times of networks, predicted from their kernels", *axes, (line, *series)))


def agreement(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return how well one process orders pipelines as the others do: the median rank correlation over processes."""
    processes = [*zip(*(row["measured_s"] for row in rows), strict=True)]
    others = [
        [*map(median, zip(*processes[:place], *processes[place + 1 :], strict=True))] for place in range(len(processes))
    ]
    return median(_rank(one, other) for one, other in zip(processes, others, strict=True))


def _rank(predicted: Sequence[float], measured: Sequence[float]) -> float:
    return float(stats.spearmanr(predicted, measured).statistic)


def fitted_call_s(rows: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds that a call costs beside its kernel: the median over pipelines."""
    return float(np.median([(median(row["measured_s"]) - row["places_s"]) / row["calls"] for row in rows]))


def _median_error(predicted: Sequence[float], measured: Sequence[float]) -> float:
    return median(abs(one / other - 1) for one, other in zip(predicted, measured, strict=True))


if __name__ == "__main__":
    main(sys.argv[1:])
