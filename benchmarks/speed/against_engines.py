"""Times TVM, with and without passsearch, beside other inference engines on the networks of the zoo.

``python -m benchmarks.speed.against_engines --engines-python VENV/bin/python`` takes all networks; names choose some.
VENV is an environment with ``onnx``, ``onnxruntime``, ``openvino`` and ``torch``; without it only TVM's own rows are
measured. ``--run 'runs/{network}'`` adds the winner of a run folder as ``tvm tuned``; ``--tune SECONDS`` makes that run
first.

* All engines read one ONNX file and have the same number of threads, on the same cores; TVM's are built from it.
* Every engine runs in a process of its own. The processes take turns in rounds, so that a disturbance affects all. This
  is done several times with new processes, which are the repetitions of the intervals.
* Outputs are compared with those of ONNX Runtime without graph optimisations, on other inputs in every process.
* PyTorch runs the operators of the ONNX file, so that it is the same network. Code written for PyTorch would call its
  fused layer norm and attention, which the file has as primitive operators.

``benchmarks/results/engines/NETWORK.json`` gets all samples; ``--table`` prints Markdown from these files.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import passsearch
from benchmarks.common import provenance
from passsearch.api.engine_artifacts import compile_as_deployed
from passsearch.core import Candidate, Pipeline
from passsearch.engines import (
    Comparison,
    EngineFailure,
    EnginePlan,
    EngineRecord,
    EngineSpec,
    compare,
    engine_row,
    engine_spec,
    throughput_ratio,
)
from passsearch.errors import PassSearchError
from passsearch.evaluate import WorkerEvaluator

RESULTS = Path(__file__).parents[1] / "results" / "engines"
NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "ssd_mobilenet", "bert_base_16", "bert_base", "gpt2")
SEQUENCES = "nhwc-schedule-cpu,schedule-cpu,combine-schedule-cpu"
ONNXRUNTIME, DEFAULT, TUNED = "onnxruntime", "tvm default", "tvm tuned"
RACE = EnginePlan(processes=1, rounds=4)
"""Plan of the race that chooses one of the catalog's sequences."""

_log = logging.getLogger(__name__)


def other_engines(python: Path, model: Path, folder: Path) -> list[EngineSpec]:
    """Return the engines beside TVM; Inductor's cache is empty at the first process."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    names = (ONNXRUNTIME, "openvino", "torch", "inductor")
    return [engine_spec(name, model, python=python, environment=cache) for name in names]


def exact_onnxruntime(python: Path, model: Path) -> EngineSpec:
    """Return the reference: ONNX Runtime that runs the graph as it is."""
    label = "onnxruntime without optimisations"
    return engine_spec(ONNXRUNTIME, model, python=python, label=label, optimise=False)


def compile_all(
    evaluator: WorkerEvaluator, candidates: Mapping[str, Candidate]
) -> tuple[list[EngineSpec], dict[str, str]]:
    """Return the candidates that compile, and the reasons for the others by name."""
    specs, failures = [], {}
    for name, candidate in candidates.items():
        try:
            specs.append(compile_as_deployed(evaluator, name, candidate))
        except EngineFailure as error:  # noqa: PERF203 -- one compile takes seconds
            failures[name] = str(error)
    return specs, failures


def fastest_sequence(
    evaluator: WorkerEvaluator, names: Sequence[str], *, reference: EngineSpec, plan: EnginePlan, folder: Path
) -> tuple[EngineSpec, dict[str, Any]]:
    """Return the fastest of the catalog's sequences in a short race, and the fastest inference of each or its failure.

    Raises:
        EngineFailure: None of them compiles and runs.
    """
    catalog = evaluator.session.catalog
    candidates = {f"tvm {name}": Candidate(catalog.sequence(name).pipeline, name=name) for name in names}
    specs, failures = compile_all(evaluator, candidates)
    if len(candidates) == 1 and specs:
        return specs[0], {}
    plan = replace(RACE, threads=plan.threads, limit=plan.limit)
    race = compare(specs, reference=reference, types=evaluator.network.inputs, plan=plan, folder=folder / "race")
    fit = {record.spec.name: record for record in race.records if not record.failure}
    seconds = {name: min(map(min, record.samples)) for name, record in fit.items()}
    failures |= {record.spec.name: record.failure for record in race.records if record.failure}
    if not fit:
        raise EngineFailure(f"no sequence compiles and runs: {failures}")
    return fit[min(seconds, key=lambda name: seconds[name])].spec, {**seconds, **failures}


def tuned_result(model: str, arguments: argparse.Namespace) -> passsearch.TuneResult | None:
    """Return the run folder's result, tuned now if that is wanted; ``None`` without one."""
    run = Path(arguments.run.format(network=model)) if arguments.run else None
    if arguments.tune:
        options = {"toolchain": arguments.toolchain, "trials": 10_000, "confirm": 0, "out": run}
        # Confirmed here, by other samples.
        return passsearch.tune(f"zoo:{model}", timeout=arguments.tune, **options)
    return passsearch.TuneResult.read(run) if run is not None and run.exists() else None


def search_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return who found the winner of a run, what it decided between, and how its named candidates did."""
    return {
        "source": document["best"]["source"],
        "composition": document["composition"],
        "throughput_of_default": {
            trial["name"]: trial["ratio"]["ratio"] for trial in document["trials"] if trial["name"] and trial["ratio"]
        },
        "seconds": document["seconds"],
    }


def measure(network: str, arguments: argparse.Namespace, *, plan: EnginePlan, folder: Path) -> dict[str, Any]:
    """Build and time one network on all engines, and return the document."""
    tuned = tuned_result(network, arguments)
    with passsearch.session(f"zoo:{network}", toolchain=arguments.toolchain, folder=folder / "tvm") as evaluator:
        session, model = evaluator.session, evaluator.session.model.path
        plan = replace(plan, limit=evaluator.builder.verification.limit(Candidate()))
        python = arguments.engines_python
        if python:
            reference, others = exact_onnxruntime(python, model), other_engines(python, model, folder)
        else:
            reference, others = compile_as_deployed(evaluator, "tvm without optimisations", Candidate()), []
        names = arguments.sequences.split(",")
        best, race = fastest_sequence(evaluator, names, reference=reference, plan=plan, folder=folder)
        candidates = {DEFAULT: session.dialect.baseline}
        if tuned is not None:
            candidates[TUNED] = Candidate(Pipeline.parse(tuned.best.pipeline), tuned.best.build, TUNED)
        specs, failures = compile_all(evaluator, candidates)
        specs = [*specs, best, *(spec for spec in others if spec.name in (arguments.engines or spec.name).split(","))]
        comparison = compare(specs, reference=reference, types=evaluator.network.inputs, plan=plan, folder=folder)
    return {
        **provenance(session),
        "network": network,
        "model_sha256": session.model.sha256,
        "plan": asdict(plan),
        "reference": reference.name,
        "race": race,
        "search": search_record(tuned.document) if tuned is not None else None,
        "disturbances": [[asdict(each) for each in process] for process in comparison.disturbances],
        "engines": {
            **rows(comparison, plan=plan, sequence=best.name),
            **{name: {"failure": reason} for name, reason in failures.items()},
        },
    }


def rows(comparison: Comparison, *, plan: EnginePlan, sequence: str) -> dict[str, dict[str, Any]]:
    """Return the row of every engine."""
    records = {record.spec.name: record for record in comparison.records if not record.failure}
    anchors = {name: records[name] for name in (ONNXRUNTIME, sequence) if name in records}
    return {record.spec.name: row(record, anchors, plan=plan) for record in comparison.records}


def row(record: EngineRecord, anchors: Mapping[str, EngineRecord], *, plan: EnginePlan) -> dict[str, Any]:
    """Return what results say about one engine."""
    own = engine_row(record, plan=plan)
    if record.failure:
        return own
    return {**own, **{f"throughput of {name}": throughput_ratio(anchor, record) for name, anchor in anchors.items()}}


def table(document: Mapping[str, Any]) -> str:
    """Return the Markdown of one network."""
    engines = document["engines"]
    anchors = [key for each in engines.values() for key in each if key.startswith("throughput of ")]
    anchors = list(dict.fromkeys(anchors))
    header = ["engine", "median ms", "fastest ms", *anchors, "compile s", "load s", "deviation"]
    lines = [f"**{document['network']}**, {document['plan']['threads']} threads, {document['date']}", ""]
    lines += [_line(header), _line(["---", *["---:"] * (len(header) - 1)])]
    lines += [_line([name, *_cells(each, anchors)]) for name, each in engines.items()]
    return "\n".join(lines)


def summary(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of all networks: throughputs as multiples of ONNX Runtime's, and tuned by the sequence's."""
    names = (TUNED, "openvino", "torch", "inductor")
    heads = ["network", "tuned", "best sequence", *names[1:], "ONNX Runtime, ms", "tuned / best sequence", "which one"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for document in documents:
        engines = document["engines"]
        if ONNXRUNTIME not in engines:
            continue
        sequence = _sequence(engines)
        tuned, best, *others = (_multiple(engines.get(name), ONNXRUNTIME) for name in (TUNED, sequence, *names[1:]))
        cells = [document["network"], tuned, best, *others, f"{1e3 * engines[ONNXRUNTIME]['median_s']:.1f}"]
        lines.append(_line([*cells, _multiple(engines.get(TUNED), sequence), sequence.removeprefix("tvm ")]))
    return "\n".join(lines)


def compile_times(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of the seconds in which each engine compiles a network or prepares it otherwise."""
    names = (ONNXRUNTIME, "openvino", "torch", "inductor")
    heads = ["network", "tuned, s", "best sequence", "TVM's default", *names]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for document in documents:
        engines = document["engines"]
        rows = [engines.get(name, {}) for name in (TUNED, _sequence(engines), DEFAULT, *names)]
        lines.append(
            _line([document["network"], *(f"{row['compile_s']:.1f}" if "compile_s" in row else "" for row in rows)])
        )
    return "\n".join(lines)


def decisions(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of what the searches decided between, and of the inference they predicted."""
    heads = ["network", "kernels", "variants", "combinations", "seconds", "of these measuring"]
    heads += ["predicted, ms", "fastest, ms"]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for document in documents:
        search, tuned = document["search"] or {}, document["engines"].get(TUNED, {})
        composed = search.get("composition") or {}
        if "kernels" in composed and "fastest_s" in tuned:
            counts = [str(composed["kernels"]), str(composed["variants"]), f"10^{composed['combinations_log10']:.0f}"]
            seconds = [f"{search['seconds'][part]:.0f}" for part in ("total", "measure")]
            times = [f"{1e3 * each:.2f}" for each in (composed["predicted_s"], tuned["fastest_s"])]
            lines.append(_line([document["network"], *counts, *seconds, *times]))
    return "\n".join(lines)


def _sequence(engines: Mapping[str, Any]) -> str:
    return next(name for name in engines if name.startswith("tvm ") and name not in (TUNED, DEFAULT))


def _multiple(row: Mapping[str, Any] | None, anchor: str) -> str:
    return _ratio_cell(row[f"throughput of {anchor}"]["by fastest"]) if row and "failure" not in row else ""


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(each: Mapping[str, Any], anchors: Sequence[str]) -> list[str]:
    if "failure" in each:
        return [f"failed: {each['failure']}", *[""] * (len(anchors) + 4)]
    times = [f"{1e3 * each[name]:.2f}" for name in ("median_s", "fastest_s")]
    ratios = [_ratio_cell(each[anchor]["by fastest"]) for anchor in anchors]
    return [*times, *ratios, f"{each['compile_s']:.2f}", f"{median(each['open_s']):.2f}", f"{each['deviation']:.1g}"]


def _ratio_cell(ratio: Mapping[str, Any]) -> str:
    interval = ratio["interval"]
    return f"{ratio['ratio']:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    plan = EnginePlan()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"built-in networks; by default {' '.join(NETWORKS)}")
    parser.add_argument("--engines-python", type=_absolute, help="interpreter that has the engines")
    parser.add_argument("--engines", help="engines beside TVM, with commas; all by default")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--sequences", default=SEQUENCES, help="of the catalog; a race chooses one (%(default)s)")
    parser.add_argument("--run", help="run folder of the winner `tvm tuned`; {network} stands for the network's name")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="make or continue that run first")
    parser.add_argument("--threads", type=int, default=plan.threads, help="of each engine (%(default)s)")
    parser.add_argument("--processes", type=int, default=plan.processes, help="of each engine (%(default)s)")
    parser.add_argument("--rounds", type=int, default=plan.rounds, help="of each process (%(default)s)")
    parser.add_argument("--visit", type=float, default=plan.visit_s, help="seconds of a visit (%(default)s)")
    parser.add_argument("--pause", type=float, default=plan.pause_s, help="seconds before a visit (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON files (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print the Markdown of the JSON files")
    return parser.parse_args(arguments)


def _absolute(path: str) -> Path:
    # Engines have working folders of their own. Not resolved: the link is what makes it the environment's interpreter.
    return Path(path).absolute()


def main(argv: Sequence[str]) -> int:
    """Measure networks one by one and write a file after each, or print the tables; return the exit status."""
    arguments = parse(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    plan = EnginePlan(
        arguments.threads, arguments.processes, arguments.rounds, visit_s=arguments.visit, pause_s=arguments.pause
    )
    arguments.results.mkdir(parents=True, exist_ok=True)
    is_complete, shown = True, []
    for network in arguments.networks or NETWORKS:
        file = arguments.results / f"{network}.json"
        try:
            if not arguments.table:
                measure_to(file, network, arguments, plan=plan)
        except (EngineFailure, PassSearchError) as error:
            _log.error("%s is not measured: %s", network, error)
            is_complete = False
        if file.exists():
            shown.append(json.loads(file.read_text()))
            print(table(shown[-1]), end="\n\n")
    if arguments.table and shown:
        print(summary(shown), compile_times(shown), decisions(shown), sep="\n\n")
    return 0 if is_complete else 1


def measure_to(file: Path, network: str, arguments: argparse.Namespace, *, plan: EnginePlan) -> None:
    """Measure one network and write its file."""
    _log.info("measuring %s", network)
    with tempfile.TemporaryDirectory(prefix="passsearch-engines-") as folder:
        document = measure(network, arguments, plan=plan, folder=Path(folder))
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
