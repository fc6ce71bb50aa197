"""Times TVM, with and without passsearch, beside other inference engines on the networks of the zoo.

``python benchmarks/against_engines.py --engines-python VENV/bin/python`` takes all networks; names choose some. VENV is
an environment with ``benchmarks/engines/requirements.txt``; without it only TVM's own rows are measured. ``--run
'runs/{network}'`` adds the winner of a run folder as ``tvm tuned``, and ``--tune SECONDS`` makes that run first.

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
import math
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from engines.client import EngineFailure, EngineSpec
from engines.rounds import Comparison, EnginePlan, EngineRecord, compare
from provenance import provenance

import passsearch
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.errors import PassSearchError
from passsearch.evaluate import Session, WorkerEvaluator
from passsearch.measure import Ratio, mean_ratio, process_ratio

RESULTS = Path(__file__).parent / "results" / "engines"
CHECKOUT = Path(__file__).parents[1]
NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "ssd_mobilenet", "bert_base_16", "bert_base", "gpt2")
SEQUENCES = "nhwc-schedule-cpu,schedule-cpu,combine-schedule-cpu"
ONNXRUNTIME, DEFAULT, TUNED = "onnxruntime", "tvm default", "tvm tuned"
RACE = EnginePlan(processes=1, rounds=4)
"""Plan of the race that chooses one of the catalog's sequences."""

_log = logging.getLogger(__name__)


def other_engines(python: Path, model: Path, folder: Path) -> list[EngineSpec]:
    """Return the engines beside TVM; Inductor's cache is empty at the first process."""
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    return [
        EngineSpec(ONNXRUNTIME, "onnxruntime", python, model),
        EngineSpec("openvino", "openvino", python, model),
        EngineSpec("torch", "torch", python, model),
        EngineSpec("inductor", "torch", python, model, settings={"inductor": True}, environment=cache),
    ]


def exact_onnxruntime(python: Path, model: Path) -> EngineSpec:
    """Return the reference: ONNX Runtime that runs the graph as it is."""
    return EngineSpec("onnxruntime without optimisations", "onnxruntime", python, model, settings={"optimise": False})


def visible_gpu(session: Session) -> dict[str, str]:
    """Return the environment variable that leaves the session's GPU alone visible; empty without a GPU."""
    return {"CUDA_VISIBLE_DEVICES": session.gpu} if session.gpu else {}


def artifact(evaluator: WorkerEvaluator, name: str, candidate: Candidate, folder: Path, **about: Any) -> EngineSpec:
    """Return TVM's runtime with a built network."""
    session = evaluator.session
    return EngineSpec(
        name,
        "tvm",
        session.toolchain.python,
        folder,
        settings={"bridge": session.dialect.bridge, "target": session.target, "device": session.device},
        # The toolchain's interpreter has TVM but not passsearch.
        environment={"PYTHONPATH": str(CHECKOUT), **visible_gpu(session)},
        about={"pipeline": str(candidate.pipeline), "build": candidate.build.to_json(), **about},
    )


def compile_as_deployed(evaluator: WorkerEvaluator, name: str, candidate: Candidate) -> EngineSpec:
    """Compile a candidate in a process of its own.

    Raises:
        EngineFailure: It does not compile.
    """
    _log.info("compiling %s", name)
    fresh = evaluator.compile_fresh(name.replace(" ", "-"), candidate, timing_key=name, kinds=())
    if isinstance(fresh, Failure):
        raise EngineFailure(f"{fresh.stage} {fresh.step}: {fresh.reason}")
    return artifact(evaluator, name, candidate, fresh.folder, compile_s=round(fresh.compile_s, 3))


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
        plan = replace(plan, limit=evaluator.builder.limit(Candidate()))
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
    spec = record.spec
    common = {"adapter": spec.adapter, **(record.opened[0] if record.opened else {}), **spec.about}
    common |= {"settings": dict(spec.settings)} if spec.adapter != "tvm" and not record.opened else {}
    common["deviation"] = max(record.deviations, default=None)
    if record.failure:
        return {**common, "failure": record.failure}
    open_s = [answer["open_s"] for answer in record.opened]
    medians, fastest = by_process(record)
    few = len(record.visits) < plan.processes or len(record.visits[0]) < plan.rounds
    return {
        **common,
        # TVM is compiled ahead of time; the others compile while they load.
        "compile_s": spec.about.get("compile_s", open_s[0]),
        "open_s": open_s,
        "first_s": record.first_s,
        "idle_share": record.idle_share,
        "inferences": sum(len(visit) for visits in record.visits for visit in visits),
        **({"note": f"slow: one inference in each of {len(record.visits)} processes"} if few else {}),
        "median_s": median(medians),
        "fastest_s": median(fastest),
        "process_median_s": medians,
        "process_fastest_s": fastest,
        **{f"throughput of {name}": throughput(anchor, record) for name, anchor in anchors.items()},
        "visits": [[[round(value, 7) for value in visit] for visit in visits] for visits in record.visits],
    }


def by_process(record: EngineRecord) -> tuple[list[float], list[float]]:
    """Return the median and the fastest inference of every process, in seconds."""
    processes = [[value for visit in visits for value in visit] for visits in record.visits]
    return [median(values) for values in processes], [min(values) for values in processes]


def throughput(anchor: EngineRecord, record: EngineRecord) -> dict[str, Any]:
    """Return an engine's throughput as a multiple of another's, by the fastest samples and by the medians."""
    pairs = list(zip(anchor.samples, record.samples, strict=False))
    medians = [math.log(one / other) for one, other in zip(by_process(anchor)[0], by_process(record)[0], strict=False)]
    return {"by fastest": ratio_document(process_ratio(pairs)), "by medians": ratio_document(mean_ratio(medians))}


def ratio_document(ratio: Ratio) -> dict[str, Any]:
    """Return a ratio with its interval; a single process has none."""
    return {"ratio": ratio.value, "interval": ratio.interval.to_json() if math.isfinite(ratio.interval.high) else None}


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
    parser.add_argument("--engines-python", type=Path, help="interpreter with benchmarks/engines/requirements.txt")
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


def main(argv: Sequence[str]) -> int:
    """Measure networks one by one and write a file after each, or print the tables; return the exit status."""
    arguments = parse(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    plan = EnginePlan(
        arguments.threads, arguments.processes, arguments.rounds, visit_s=arguments.visit, pause_s=arguments.pause
    )
    arguments.results.mkdir(parents=True, exist_ok=True)
    is_complete = True
    for network in arguments.networks or NETWORKS:
        file = arguments.results / f"{network}.json"
        try:
            if not arguments.table:
                measure_to(file, network, arguments, plan=plan)
        except (EngineFailure, PassSearchError) as error:
            _log.error("%s is not measured: %s", network, error)
            is_complete = False
        if file.exists():
            print(table(json.loads(file.read_text())), end="\n\n")
    return 0 if is_complete else 1


def measure_to(file: Path, network: str, arguments: argparse.Namespace, *, plan: EnginePlan) -> None:
    """Measure one network and write its file."""
    _log.info("measuring %s", network)
    with tempfile.TemporaryDirectory(prefix="passsearch-engines-") as folder:
        document = measure(network, arguments, plan=plan, folder=Path(folder))
    file.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
