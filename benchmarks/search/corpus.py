"""Measures the corpus: networks of many architectures by TVM's default, the sequences that suit and ONNX Runtime.

``python -m benchmarks.search.corpus FOLDER --engines-python VENV/bin/python`` writes the networks that are missing into
a folder as ONNX, and measures each in a process of its own; names after the folder choose some. VENV is an environment
with ``torch``, ``timm`` and ``transformers``. What the corpus has of this kind of processor is not measured again,
unless ``--again``. Several makers may run at once, each with its own names.
``--search SECONDS`` searches the networks that were measured instead.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import passsearch
from benchmarks.common import (
    ROOT,
    first_in_line,
    in_own_process,
    network_session,
    note,
    one_at_a_time,
    options,
    provenance,
    read,
    today,
)
from benchmarks.search import corpus_networks
from passsearch.api.common import open_evaluator
from passsearch.api.engine_artifacts import artifact_engine
from passsearch.core import Candidate, Failure
from passsearch.engines import EnginePlan, EngineTiming, engine_spec
from passsearch.evaluate import Built, WorkerEvaluator
from passsearch.results import CorpusSearch, StatedRatio
from passsearch.search import analyze_network, feature_counts, named_candidate, sequences_in_catalog_order
from passsearch.search.corpus_recommendation import DEFAULT, ONNXRUNTIME
from passsearch.toolchain import target_cpu
from passsearch.worker import ScratchFolder

CORPUS = ROOT / "pass_catalog" / "relax" / "corpus.json"
SCHEMA = "passsearch-corpus/1"

REFERENCE = "reference"
LIMIT_S = 230.0
"""Longest time of one network."""

NETWORKS = (*corpus_networks.TIMM, *corpus_networks.TRANSFORMERS, *corpus_networks.ZOO)
_log = logging.getLogger(__name__)


def measure(name: str, model: str) -> None:
    """Measure a network and add it to the corpus."""
    # One case of outputs: every process compares those of all engines once more, on inputs of its own.
    session = replace(network_session(model, "relax"), output_cases=(1,))
    with ScratchFolder() as folder, open_evaluator(session, remember=False) as evaluator:
        analysis = analyze_network(evaluator.session, evaluator.network.summary)
        default = named_candidate(evaluator.session, DEFAULT)
        candidates, _ = sequences_in_catalog_order(evaluator.session, analysis)
        built, same, failures = _build(evaluator, candidates)
        slow = evaluator.build_candidate(default)
        if isinstance(slow, Failure):
            failures[DEFAULT] = f"{slow.kind}: {slow.reason}"
        else:
            built[DEFAULT] = slow
        candidates[DEFAULT] = default
        rounds, disturbed = _time(evaluator, {key: (candidates[key], each) for key, each in built.items()}, folder)
        machine = provenance(evaluator.session)
        row = {
            "family": corpus_networks.family(name),
            "date": today(),
            "code": _code(),
            "inputs": {key: list(kind.shape) for key, kind in evaluator.network.inputs.items()},
            "classes": list(analysis.class_names),
            "features": dict(feature_counts(analysis)),
            "order": [each for each in candidates if each != DEFAULT],
            "same": same,
            "failures": failures,
            "rounds_s": rounds,
            "foreign_percent": disturbed,
        }
    _add(machine, name, row)


def _build(
    evaluator: WorkerEvaluator, candidates: dict[str, Candidate]
) -> tuple[dict[str, Built], dict[str, str], dict[str, str]]:
    """Build candidates; return those with kernels of their own, the names of equal ones, and the failures."""
    built: dict[str, Built] = {}
    same: dict[str, str] = {}
    failures: dict[str, str] = {}
    states: dict[str, str] = {}
    for name, candidate in candidates.items():
        state = evaluator.reach(candidate.pipeline)
        if not isinstance(state, Failure) and state in states:
            same[name] = states[state]
            continue
        made = state if isinstance(state, Failure) else evaluator.build(state, candidate)
        if isinstance(made, Failure):
            failures[name] = f"{made.kind}: {made.reason}"
            continue
        equal = next((other for other, each in built.items() if each.kernels == made.kernels), None)
        states[made.state] = equal or name
        if equal is None:
            built[name] = made
        else:
            same[name] = equal
    return built, same, failures


def _time(
    evaluator: WorkerEvaluator, built: dict[str, tuple[Candidate, Built]], folder: Path
) -> tuple[dict[str, list[float]], float]:
    """Return the fastest inference of each round in seconds, by name, and the share of the cores that others took."""
    opened = evaluator.session
    specs = [artifact_engine(evaluator, name, each, folder=made.folder) for name, (each, made) in built.items()]
    references = []
    if opened.model.format == "onnx":
        rival = engine_spec(ONNXRUNTIME, opened.model.path, python=Path(sys.executable))
        specs.append(rival)
        references.append(engine_spec(ONNXRUNTIME, opened.model.path, python=Path(sys.executable), label=REFERENCE))
    plan = EnginePlan(
        opened.threads, processes=2, rounds=3, visit_s=0.3, most=300, slow_processes=1, limit=1e-3, pause_s=0.1
    )
    timing = EngineTiming(
        specs,
        references=references or specs[:1],
        types=evaluator.network.inputs,
        plan=plan,
        folder=folder,
        inputs=evaluator.network.check,
    )
    for _ in range(plan.processes):
        with first_in_line():
            timing.run_process()
    comparison = timing.comparison
    shares = [each.foreign + each.steal for rounds in comparison.disturbances for each in rounds]
    rows = {
        record.spec.name: [float(f"{seconds:.5g}") for process in record.samples for seconds in process]
        for record in comparison.records
        if not record.failure
    }
    return rows, round(100 * sum(shares) / max(1, len(shares)), 2)


def search(name: str, model: str, seconds: float) -> None:
    """Search a network for a time, and add to its row what the search gained over the best sequence."""
    with ScratchFolder() as folder:
        result = passsearch.tune(model, toolchain="relax", timeout=seconds, out=folder / "run", remember=False)
    found = result.document["sequence"]
    _log.info("%s: %s", name, result.document["verdict"])
    if found is None:
        note(f"{name}: no sequence was measured")
        return
    gain = StatedRatio(1.0) if found["is_best"] else StatedRatio.from_json(found["gain"])
    row = CorpusSearch(seconds, found["name"], result.document["best"]["name"], gain)
    with one_at_a_time("corpus"):
        document = read(CORPUS)
        document["processors"][target_cpu(result.document["target"])]["networks"][name]["search"] = row.to_json()
        write_corpus(document)


def _add(machine: dict[str, Any], name: str, row: dict[str, Any]) -> None:
    kind = target_cpu(machine["target"])
    about = {key: machine[key] for key in ("device", "target", "toolchain")}
    with one_at_a_time("corpus"):
        document = read(CORPUS) or {"schema": SCHEMA, "processors": {}}
        processor = document["processors"].setdefault(kind, {**about, "networks": {}})
        processor["networks"][name] = row
        write_corpus(document)


def write_corpus(document: dict[str, Any]) -> None:
    """Write the corpus with a line for each network, so that the file is complete at every moment."""
    processors = []
    for kind, about in document["processors"].items():
        rows = ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in about["networks"].items())
        head = json.dumps({key: value for key, value in about.items() if key != "networks"})[:-1]
        processors.append(f'  {json.dumps(kind)}: {head}, "networks": {{\n{rows}\n  }}}}')
    text = (
        f'{{\n "schema": {json.dumps(document["schema"])},\n "processors": {{\n' + ",\n".join(processors) + "\n }\n}\n"
    )
    partial = CORPUS.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(CORPUS)


def _code() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%h"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def network_file(folder: Path, name: str, python: str) -> str:
    """Return the file of a network, written first where it is missing."""
    if name in corpus_networks.ZOO:
        return name
    file = folder / f"{name}.onnx"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [python, "-W", "ignore", "-m", corpus_networks.__name__, folder.absolute(), name]
        subprocess.run(command, cwd=ROOT, check=True)
    return str(file)


def main() -> None:
    arguments = options(
        __doc__,
        ("folder", Path),
        ("networks", NETWORKS),
        engines_python=(sys.executable, "interpreter with torch, timm and transformers"),
        search=(0.0, "seconds of a search of each network that was measured"),
        limit=(LIMIT_S, "longest time of one network in seconds"),
        again=(False, "measure networks that the corpus has"),
        verbose=(False, "log what is done"),
        most=(len(NETWORKS), "number of networks after which the maker stops"),
    )
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.WARNING, format="%(asctime)s %(message)s")
    done = 0
    for name in arguments.networks:
        rows = next((each["networks"] for each in _here()), {})
        if arguments.search:
            is_open = name in rows and "search" not in rows[name] and "rounds_s" in rows[name]
        else:
            is_open = arguments.again or name not in rows
        if not is_open or done >= arguments.most:
            continue
        done += 1
        model = network_file(arguments.folder, name, arguments.engines_python)
        work = (search, name, model, arguments.search) if arguments.search else (measure, name, model)
        fault = in_own_process(*work, timeout_s=arguments.limit)
        note(f"{name}: {fault or 'done'}")


def _here() -> Iterator[dict[str, Any]]:
    """Yield what the corpus has of this kind of processor."""
    from passsearch.toolchain import get_toolchain, host_target

    processors = read(CORPUS).get("processors", {})
    kind = target_cpu(host_target(get_toolchain("relax")))
    if kind in processors:
        yield processors[kind]


if __name__ == "__main__":
    main()
