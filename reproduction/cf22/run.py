"""The paper's evaluation again: ``python run.py ssd_resnet50_pytorch --frameworks PYTHON --device cpu``.

For each network named, what is not in ``benchmarks/results/<dialect>/cf22/NAME.json`` yet: builds it by its own
framework in the interpreter ``--frameworks``, compares its outputs with the framework's, reads its classes, searches
for the quickest compile and for the highest throughput, audits a gain in the latter, profiles what it found beside -O3,
measures BL, AS-0, AS-1, PO-0 to PO-3 and the best found against -O3, interleaved, and counts what passes did in all of
that. Interrupted, it goes on with the same command. ``tables.py`` makes the tables.
"""

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from networks import NETWORKS, edition
from provenance import provenance
from selections import selections

import passsearch
from passsearch.catalog import Ruling, candidates, with_needs
from passsearch.core import BuildOptions, Candidate, Failure, Fingerprint, PassSpec, Pipeline, parse_input
from passsearch.evaluate import Session, open_session
from passsearch.evaluate.evaluator import Built, Evaluator
from passsearch.frontends import resolve
from passsearch.measure import log_ratio
from passsearch.search.comparison import CF22, PAIRED, Side, compare_candidates, with_its_needs
from passsearch.search.pass_selection import analyze_network
from passsearch.store import Log, open_fact_cache, read_result, write_json
from passsearch.toolchain import cache_folder

HERE = Path(__file__).parent
RUNS = HERE.parents[1] / "runs" / "cf22"
RESULTS = HERE.parent / "results"

AGREES = 1e-4
"""Largest deviation from the framework's outputs, as a share of the largest."""

TOO_SLOW = 0.5
"""Share of -O3's throughput below which a selection is timed in one process only: some are a hundred times slower."""

PROCESSES = 6
"""Timing processes; the fewest whose range of ratios is a 95 % interval of their median."""


@dataclass(frozen=True)
class Subject:
    """One network and where everything of it is."""

    name: str
    chosen: Session
    path: str
    inputs: dict[str, Any]
    folder: Path
    options: argparse.Namespace
    document: dict[str, Any]


def main() -> None:
    """Do what is missing of each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=NETWORKS)
    parser.add_argument("--frameworks", default=sys.executable, help="interpreter with the frameworks (this one)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each search (%(default)s)")
    parser.add_argument("--protocol", choices=(PAIRED, CF22), default=PAIRED)
    parser.add_argument("--results", type=Path, help="folder of the results (benchmarks/results/DIALECT/cf22)")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    options = parser.parse_args()
    for name in options.names:
        run(name, options)


def run(name: str, options: argparse.Namespace) -> None:
    """Everything of one network; each step is written down before the next begins."""
    subject = prepare(name, options)
    file = (options.results or RESULTS / subject.chosen.toolchain.dialect / "cf22") / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    document = subject.document
    document |= json.loads(file.read_text()) if file.exists() else {"network": name}
    refuse_elsewhere(subject)
    steps = [step for step in STEPS if step in options.steps]
    for step in steps:
        key = CF22 if step == "compare" and options.protocol == CF22 else step
        if key not in document:
            print(f"{name}: {key}", file=sys.stderr, flush=True)
            document[key] = {**provenance(subject.chosen), **STEPS[step](subject)}
            write_json(file, document)


def refuse_elsewhere(subject: Subject) -> None:
    """Numbers of two machines do not go into one table."""
    here = provenance(subject.chosen)
    for step in (each for each in subject.document.values() if isinstance(each, dict)):
        if any(step[key] != here[key] for key in ("device", "target")):
            sys.exit(f"{subject.name} was measured on {step['device']}, {step['target']}; give another --results.")


def prepare(name: str, options: argparse.Namespace) -> Subject:
    """Build the network where that was not done, and settle what compiles it."""
    made = RUNS / "networks" / name
    told = made / "network.json"
    if not told.exists() or json.loads(told.read_text()).get("edition") != edition():
        command = [options.frameworks, str(HERE / "networks.py"), name, "--out", str(made.parent)]
        subprocess.run(command, check=True)
    described = json.loads(told.read_text())
    path, inputs = str(made / described["path"]), dict(parse_input(text) for text in described["inputs"])
    file = resolve(path, inputs=inputs, folder=cache_folder() / "models")
    target = None if options.device == "cpu" else options.device
    chosen = open_session(replace(file, name=name), toolchain=None, target=target)
    return Subject(name, chosen, path, inputs, RUNS / chosen.memory.stem, options, {})


def agree(subject: Subject) -> dict[str, Any]:
    """Outputs of the imported network, built without optimisation, against the framework's."""
    with evaluating(subject) as evaluator:
        built = evaluator.built(evaluator.graph.root, Candidate())
        built = built if isinstance(built, Failure) else evaluator.restore(built)
        if isinstance(built, Failure):
            return {"failure": built.to_json()}
        cases = Path(subject.path).with_name("cases.npz")
        told = asked(subject, "agree.py", str(built.folder), str(cases), subject.chosen.device)
    agrees = all(each is not None and each <= AGREES for each in told)
    return {"deviations": told, "limit": AGREES, "agrees": agrees}


def asked(subject: Subject, script: str, *arguments: str) -> Any:
    """What a script says in the toolchain's interpreter; what it and its compiler complain of is passed on."""
    command = [str(subject.chosen.toolchain.python), str(HERE / script), *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def analyze(subject: Subject) -> dict[str, Any]:
    """Features, classes, the passes they leave, and what each pass of the paper does to the imported network."""
    with evaluating(subject) as evaluator:
        reading = analyze_network(subject.chosen, evaluator.summary)
        catalog = subject.chosen.catalog
        version = subject.chosen.toolchain.tvm_version
        whole = candidates(catalog, (), fingerprint=Fingerprint(), tvm_version=version).kept
        kept = reading.selection.kept
        present = reading.fingerprint.present()
        steps = [PassSpec.of(entry.name) for entry in catalog.entries.values() if entry.paper]
        effects = {
            step.name: effect(evaluator, with_needs(Pipeline((step,)), catalog, present=present)) for step in steps
        }
    return {
        "features": {name: feature.count for name, feature in reading.fingerprint.features.items() if feature.count},
        "classes": list(reading.class_names),
        "passes": {"all": len(whole), "classes": len(kept)},
        "choices": {"all": choices(whole), "classes": choices(kept)},
        "effects": effects,
    }


def choices(rulings: Sequence[Ruling]) -> int:
    """Passes, each counted with every choice of arguments that is searched."""
    return sum(len(ruling.entry.variants()) for ruling in rulings)


def effect(evaluator: Evaluator, pipeline: Pipeline) -> str:
    """What the last pass does to the network, after those it needs: ``changes``, ``nothing``, or its failure."""
    before, after = (evaluator.reach(Pipeline(steps)) for steps in (pipeline.passes[:-1], pipeline.passes))
    if isinstance(after, Failure):
        return f"{after.kind}: {after.reason}"
    return "nothing" if after == before else "changes"


def tune(objective: str) -> Callable[[Subject], dict[str, Any]]:
    """A search for one objective."""

    def search(subject: Subject) -> dict[str, Any]:
        result = passsearch.tune(
            subject.path,
            inputs=subject.inputs,
            objective=objective,
            trials=subject.options.trials,
            timeout=subject.options.timeout,
            target=subject.chosen.target,
            out=subject.folder / objective,
            progress=lambda text, done, total: print(f"  {text} {done}/{total}", file=sys.stderr, flush=True),
        )
        if result.document["interrupted"]:
            raise KeyboardInterrupt  # the search goes on next time
        kept = ("best", "baseline", "baselines", "ratios", "verdict", "space", "classes", "failures", "seconds")
        return {key: slim(result.document[key]) for key in kept}

    return search


def audit(subject: Subject) -> dict[str, Any]:
    """The claim of a search for throughput made again, where it is one."""
    folder = subject.folder / "throughput"
    if not read_result(folder)["verdict"]["improved"]:
        return {"unavailable": "no gain in throughput to confirm"}
    found = passsearch.audit(folder, progress=lambda text, *_: print(f"  {text}", file=sys.stderr))
    return {key: slim(value) for key, value in found.items() if key not in ("model", "device", "toolchain")}


def compare(subject: Subject) -> dict[str, Any]:
    """The paper's selections and the best ones against -O3, in one interleaved measurement."""
    with evaluating(subject) as evaluator:
        classes = analyze_network(subject.chosen, evaluator.summary).class_names
        paper = selections(subject.name, classes, catalog=subject.chosen.catalog)
        contenders = [with_its_needs(subject.chosen, evaluator, candidate=each) for each in paper] + found(subject)
        slow = {each.name: row for each in contenders if (row := alone(evaluator, each, subject=subject))}
        baseline = subject.chosen.dialect.baseline
        others = [each for each in contenders if each.name not in slow]
        document = compare_candidates(
            [Side(subject.chosen, evaluator, [baseline, *others])],
            rounds=6,
            processes=None if subject.options.protocol == CF22 else PROCESSES,
            protocol=subject.options.protocol,
            cache="warm",
            progress=lambda text, *_: print(f"  {text}", file=sys.stderr, flush=True),
        )
    rows = {row["name"]: slim(row) for row in document["rows"]} | slow
    for each in contenders:
        rows[each.name]["steps"] = [str(step) for step in each.pipeline.passes]
    return {**{key: document[key] for key in ("baseline", "protocol", "noise_floor", "processes")}, "rows": rows}


def found(subject: Subject) -> list[Candidate]:
    """AS-best, the quickest compile that keeps -O3's throughput, and what had the highest throughput."""
    best = []
    for name, objective in (("AS-best", "compile_time"), ("fastest", "throughput")):
        if objective in subject.document:
            row = subject.document[objective]["best"]
            best.append(Candidate(Pipeline.parse(row["pipeline"]), BuildOptions.from_json(row["build"]), name))
    return best


def alone(evaluator: Evaluator, candidate: Candidate, *, subject: Subject) -> dict[str, Any] | None:
    """The row of a selection that fails or is far slower than -O3; ``None`` for one to be measured interleaved."""
    baseline = subject.chosen.dialect.baseline
    reference = evaluator.built(evaluator.graph.root, baseline)
    if isinstance(reference, Failure):
        return {"name": candidate.name, "failure": reference.to_json()}
    state = evaluator.reach(candidate.pipeline)
    built = state if isinstance(state, Failure) else evaluator.built(state, candidate)
    timed = built if isinstance(built, Failure) else evaluator.samples(reference, built)
    if isinstance(timed, Failure):
        return {"name": candidate.name, "failure": timed.to_json()}
    assert isinstance(built, Built)
    ratio = math.exp(log_ratio(*timed["samples"]))
    if ratio >= TOO_SLOW:
        return None
    latency_s = median(timed["samples"][1])
    return {
        "name": candidate.name,
        "pipeline": str(candidate.pipeline),
        "binary": built.digest,
        "compile_s": evaluator.apply_seconds(candidate.pipeline) + built.seconds,
        "latency_s": {"median": latency_s, "interval": None, "n": len(timed["samples"][1])},
        "ratio": {"ratio": ratio, "interval": None},
        "unavailable": {
            "interval": f"under {TOO_SLOW} of -O3's throughput; timed in one process, until that was certain"
        },
    }


@contextmanager
def evaluating(subject: Subject) -> Iterator[Evaluator]:
    """An evaluator that goes on where it was interrupted, with what searches on the network found out."""
    folder = subject.folder / "compare"
    folder.mkdir(parents=True, exist_ok=True)
    with Log(folder / "log.jsonl") as log, open_fact_cache(subject.chosen.memory) as memory, ExitStack() as stack:
        evaluator = subject.chosen.evaluator(log, folder / "artifacts", memory=memory)
        stack.callback(evaluator.close)
        yield evaluator


def profile(subject: Subject) -> dict[str, Any]:
    """Where -O3 and what was found spend their time; what both searches found is profiled once, as the quickest."""
    distinct: dict[tuple[Pipeline, BuildOptions], Candidate] = {}
    for each in (subject.chosen.dialect.baseline, *found(subject)):
        distinct.setdefault((each.pipeline, each.build), each)
    return {each.name: costs(each, subject) for each in distinct.values()}


def costs(candidate: Candidate, subject: Subject) -> dict[str, Any]:
    """What ``costs.py`` says of one candidate's build, its own passes already applied."""
    network = subject.folder / "network.json"
    with evaluating(subject) as evaluator:
        evaluator.save(evaluator.states(candidate.pipeline)[-1], network)
    where = ("--target", subject.chosen.target, "--device", subject.chosen.device)
    build = ("--level", str(candidate.build.opt_level), "--disabled", *candidate.build.disabled)
    told = asked(subject, "costs.py", str(network), *where, *build)
    network.unlink()
    return dict(told)


def acts(subject: Subject) -> dict[str, Any]:
    """How often each pass was applied to an IR of the network by all searches together, and how often it changed it."""
    counts: dict[str, Counter[str]] = {}
    with Log(subject.chosen.memory, writable=False) as memory:
        for key in (key for kind, key in memory.times if kind == "edge"):
            state, _, step = key.partition("|")
            fact = memory.recall("edge", key) or {}
            outcome = "failed" if "failure" in fact else "idle" if fact["state"] == state else "changed"
            counts.setdefault(step.partition("{")[0], Counter())[outcome] += 1
    return {"passes": {name: dict(found) for name, found in sorted(counts.items())}}


def slim(value: Any) -> Any:
    """Without raw samples."""
    if isinstance(value, dict):
        return {key: slim(each) for key, each in value.items() if key not in ("samples", "conditions")}
    return [slim(each) for each in value] if isinstance(value, list) else value


STEPS: dict[str, Callable[[Subject], dict[str, Any]]] = {
    "agree": agree,
    "analyze": analyze,
    "compile_time": tune("compile_time"),
    "throughput": tune("throughput"),
    "audit": audit,
    "profile": profile,
    "compare": compare,
    "acts": acts,
}

if __name__ == "__main__":
    main()
