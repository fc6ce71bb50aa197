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
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, note, options, provenance, ratio_text, read, write
from passsearch.api.engine_artifacts import compile_as_deployed
from passsearch.core import Candidate, Pipeline
from passsearch.engines import (
    Comparison,
    EngineFailure,
    EnginePlan,
    EngineSpec,
    compare,
    engine_row,
    engine_spec,
    throughput_ratio,
)
from passsearch.errors import PassSearchError
from passsearch.evaluate import WorkerEvaluator

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "ssd_mobilenet", "bert_base_16", "bert_base", "gpt2")
SEQUENCES = "winograd-schedule-cpu,nhwc-schedule-cpu,schedule-cpu,combine-schedule-cpu"
ONNXRUNTIME, DEFAULT, TUNED = "onnxruntime", "tvm default", "tvm tuned"
OTHERS = (ONNXRUNTIME, "openvino", "torch", "inductor")


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
    """Return the fastest of the catalog's sequences side by side, and the fastest inference of each or its failure."""
    catalog = evaluator.session.catalog
    candidates = {f"tvm {name}": Candidate(catalog.sequence(name).pipeline, name=name) for name in names}
    specs, failures = compile_all(evaluator, candidates)
    if len(candidates) == 1 and specs:
        return specs[0], {}
    plan = replace(EnginePlan(processes=1, rounds=4), threads=plan.threads, limit=plan.limit)
    found = compare(specs, reference=reference, types=evaluator.network.inputs, plan=plan, folder=folder / "sequences")
    seconds = {each.spec.name: min(map(min, each.samples)) for each in found.records if not each.failure}
    failures |= {each.spec.name: each.failure for each in found.records if each.failure}
    if not seconds:
        raise EngineFailure(f"no sequence compiles and runs: {failures}")
    best = min(seconds, key=lambda name: seconds[name])
    return next(spec for spec in specs if spec.name == best), {**seconds, **failures}


def tuned_result(network: str, arguments: argparse.Namespace) -> passsearch.TuneResult | None:
    """Return the run folder's result, tuned now if that is wanted; ``None`` without one."""
    run = Path(arguments.run.format(network=network)) if arguments.run else None
    if arguments.tune:
        # Confirmed here, by other samples.
        limits = {"timeout": arguments.tune, "trials": 10_000, "confirm": 0}
        return passsearch.tune(f"zoo:{network}", toolchain=arguments.toolchain, out=run, rivals=[], **limits)
    return passsearch.TuneResult.read(run) if run is not None and run.exists() else None


def search_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return who found the winner of a run, what it decided between, and how its named candidates did."""
    named = {each["name"]: each["ratio"]["ratio"] for each in document["trials"] if each["name"] and each["ratio"]}
    kept = {key: document[key] for key in ("composition", "seconds")}
    return {"source": document["best"]["source"], **kept, "throughput_of_default": named}


def measure(network: str, arguments: argparse.Namespace, *, plan: EnginePlan, folder: Path) -> dict[str, Any]:
    """Build and time one network on all engines, and return the document."""
    tuned = tuned_result(network, arguments)
    with passsearch.session(f"zoo:{network}", toolchain=arguments.toolchain, folder=folder / "tvm") as evaluator:
        session, model = evaluator.session, evaluator.session.model.path
        plan = replace(plan, limit=evaluator.builder.verification.limit(Candidate()))
        if arguments.engines_python:
            # Not resolved: the link is what makes it the environment's interpreter.
            python = Path(arguments.engines_python).absolute()
            label = "onnxruntime without optimisations"
            reference = engine_spec(ONNXRUNTIME, model, python=python, label=label, optimise=False)
            # Inductor's cache is empty at the first process.
            cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
            wanted = [name for name in OTHERS if name in (arguments.engines or name).split(",")]
            others = [engine_spec(name, model, python=python, environment=cache) for name in wanted]
        else:
            reference, others = compile_as_deployed(evaluator, "tvm without optimisations", Candidate()), []
        names = arguments.sequences.split(",")
        best, sequences = fastest_sequence(evaluator, names, reference=reference, plan=plan, folder=folder)
        candidates = {DEFAULT: session.dialect.baseline}
        if tuned is not None:
            candidates[TUNED] = Candidate(Pipeline.parse(tuned.best.pipeline), tuned.best.build, TUNED)
        specs, failures = compile_all(evaluator, candidates)
        types = evaluator.network.inputs
        comparison = compare([*specs, best, *others], reference=reference, types=types, plan=plan, folder=folder)
    engines = {
        **rows(comparison, plan=plan, sequence=best.name),
        **{name: {"failure": reason} for name, reason in failures.items()},
    }
    return {
        **provenance(session),
        "network": network,
        "model_sha256": session.model.sha256,
        "plan": asdict(plan),
        "reference": reference.name,
        "race": sequences,
        "search": search_record(tuned.document) if tuned is not None else None,
        "disturbances": [[asdict(each) for each in process] for process in comparison.disturbances],
        "engines": engines,
    }


def rows(comparison: Comparison, *, plan: EnginePlan, sequence: str) -> dict[str, dict[str, Any]]:
    """Return the row of every engine."""
    records = {record.spec.name: record for record in comparison.records if not record.failure}
    anchors = {name: records[name] for name in (ONNXRUNTIME, sequence) if name in records}
    found = {}
    for record in comparison.records:
        ratios = {} if record.failure else {name: throughput_ratio(each, record) for name, each in anchors.items()}
        own = {f"throughput of {name}": ratio for name, ratio in ratios.items()}
        found[record.spec.name] = {**engine_row(record, plan=plan), **own}
    return found


def table(document: Mapping[str, Any]) -> str:
    """Return the Markdown of one network."""
    engines = document["engines"]
    anchors = dict.fromkeys(key for each in engines.values() for key in each if key.startswith("throughput of "))
    lines = []
    for name, each in engines.items():
        if "failure" in each:
            lines.append([name, f"failed: {each['failure']}", *[""] * (len(anchors) + 4)])
            continue
        times = [f"{1e3 * each[key]:.2f}" for key in ("median_s", "fastest_s")]
        ratios = [ratio_text(each[anchor]["by fastest"]) for anchor in anchors]
        rest = [f"{each['compile_s']:.2f}", f"{median(each['open_s']):.2f}", f"{each['deviation']:.1g}"]
        lines.append([name, *times, *ratios, *rest])
    title = f"**{document['network']}**, {document['plan']['threads']} threads, {document['date']}"
    heads = ("engine", "median ms", "fastest ms", *anchors, "compile s", "load s", "deviation")
    return f"{title}\n\n{markdown(heads, lines)}"


def summary(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the Markdown of all networks: throughputs as multiples of ONNX Runtime's, and tuned by the sequence's."""
    lines = []
    for document in documents:
        engines = document["engines"]
        if ONNXRUNTIME in engines:
            sequence = next(name for name in engines if name.startswith("tvm ") and name not in (TUNED, DEFAULT))
            cells = [_multiple(engines, name, ONNXRUNTIME) for name in (TUNED, sequence, *OTHERS[1:])]
            cells += [f"{1e3 * engines[ONNXRUNTIME]['median_s']:.1f}", _multiple(engines, TUNED, sequence)]
            lines.append([document["network"], *cells, sequence.removeprefix("tvm ")])
    heads = ("network", "tuned", "best sequence", *OTHERS[1:], "ONNX Runtime, ms", "tuned / best sequence", "which one")
    return markdown(heads, lines)


def _multiple(engines: Mapping[str, Any], name: str, anchor: str) -> str:
    row = engines.get(name, {"failure": ""})
    return "" if "failure" in row else ratio_text(row[f"throughput of {anchor}"]["by fastest"])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure networks one by one and write a file after each, or print the tables; return the exit status."""
    plan = EnginePlan()
    arguments = options(
        __doc__,
        ("networks", NETWORKS),
        argv=argv,
        engines_python=(str, "interpreter that has the engines"),
        engines=(str, "engines beside TVM, with commas; all by default"),
        toolchain="relax",
        sequences=(SEQUENCES, "of the catalog; the fastest is measured"),
        run=(str, "run folder of the winner `tvm tuned`; {network} stands for the network's name"),
        tune=(float, "make or continue that run first, in so many seconds"),
        threads=(plan.threads, "of each engine"),
        processes=(plan.processes, "of each engine"),
        rounds=(plan.rounds, "of each process"),
        visit=(plan.visit_s, "seconds of a visit"),
        pause=(plan.pause_s, "seconds before a visit"),
        results=(RESULTS / "engines", "folder for the JSON files"),
        table=(False, "print the Markdown of the JSON files"),
    )
    times = {"visit_s": arguments.visit, "pause_s": arguments.pause}
    plan = EnginePlan(arguments.threads, arguments.processes, arguments.rounds, **times)
    is_complete, files = True, [arguments.results / f"{network}.json" for network in arguments.networks]
    for file in [] if arguments.table else files:
        note(f"measuring {file.stem}")
        try:
            with tempfile.TemporaryDirectory(prefix="passsearch-engines-") as folder:
                write(file, measure(file.stem, arguments, plan=plan, folder=Path(folder)))
        except (EngineFailure, PassSearchError) as error:
            note(f"{file.stem} is not measured: {error}")
            is_complete = False
    documents = [read(file) for file in files if file.exists()]
    print("\n\n".join([*map(table, documents), summary(documents)]))
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
