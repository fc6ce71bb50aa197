"""Repeats the paper's evaluation: ``python run.py ssd_resnet50_pytorch --frameworks PYTHON --device cpu``.

For every network, these steps follow each other; a step whose result is in ``benchmarks/results/<dialect>/cf22`` is
skipped, so the same command continues after an interruption, and ``--results`` of an empty folder begins anew:

* ``agree``: outputs of the imported network are compared with those of its framework,
* ``analyze``: features, architecture classes, and the effect of every pass of the paper on the imported network,
* ``compile_time``, ``throughput``: two searches, for the quickest compile and for the highest throughput,
* ``audit``: a gain in throughput is confirmed once more,
* ``profile``: time per pass and per kernel of -O3 and of the results of the searches,
* ``compare``: the paper's selections and the results of the searches against -O3, interleaved,
* ``permute``: several orders of each selection at both build levels, as the paper chose the best of several orders,
* ``attribute``: fresh compiles of -O3, of -O3 with numpy as the evaluator of constants, and of the quickest sequence,
  and the throughput of the catalog's other baselines, such as -O3 after ``ConvertLayout``,
* ``acts``: how often each pass changed an IR in all of that.

The interpreter ``--frameworks`` builds the networks. ``tables.py`` makes the tables. Everything here uses the public
names of passsearch only.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candidates import build, one_process_row, slow_row
from networks import NETWORKS, edition
from permute import permute
from selections import paper_candidates
from turns import compile_in_turns

import passsearch
from passsearch.catalog import PassDecision, insert_prerequisites, select_passes
from passsearch.core import BuildOptions, Candidate, Failure, Fingerprint, PassSpec, Pipeline, parse_input
from passsearch.errors import PassSearchError
from passsearch.evaluate import RecordedEdge, Session, WorkerEvaluator, recorded_edges
from passsearch.search import (
    analyze_network,
    named_candidate,
    with_prerequisites,
)
from passsearch.store import Log, read_result, write_json
from passsearch.studies import (
    CF22,
    PAIRED,
    ComparisonOptions,
    Side,
    compare_candidates,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNS = ROOT / "runs" / "cf22"
RESULTS = ROOT / "benchmarks" / "results"

sys.path.insert(0, str(ROOT))

from benchmarks.common import provenance  # noqa: E402

MAX_DEVIATION = 1e-4
"""Largest deviation from the framework's outputs, as a share of the largest output."""

PROCESSES = 6
"""Timing processes; the fewest whose range of ratios is a 95 % interval of their median."""

PAPER_RUNS, LEAST_RUNS = 1000, 100
"""Runs of each selection that the paper's protocol keeps, and the fewest where an inference takes long."""

SEARCH_KEYS = ("best", "baseline", "baselines", "ratios", "verdict", "space", "classes", "failures", "seconds")
"""Keys of a search's result that the tables need."""

SEARCHES = {"compile_time": "AS-best", "throughput": "fastest"}
"""Names of the searches' results, by objective; AS-best is the quickest compile that keeps -O3's throughput."""


@dataclass(frozen=True)
class Subject:
    """One network of the paper, with the settings and the results of its evaluation.

    Attributes:
        name: Name in ``networks.py``.
        session: Network, compiler and device.
        path: File or folder of the network, as its framework wrote it.
        inputs: Types of its inputs by name.
        folder: Folder for searches and measurements.
        options: Options of the command line.
        document: Results so far, by step.
    """

    name: str
    session: Session
    path: str
    inputs: dict[str, Any]
    folder: Path
    options: argparse.Namespace
    document: dict[str, Any] = field(default_factory=dict)

    def evaluator(self) -> AbstractContextManager[WorkerEvaluator]:
        """Open an evaluator that continues where it was interrupted and shares its facts with the searches."""
        return passsearch.session(
            self.path,
            inputs=self.inputs,
            toolchain=self.session.toolchain.name,
            target=self.session.target,
            plans=self.session.plans,
            folder=self.folder / "compare",
        )


def main() -> None:
    """Run the missing steps of every network."""
    parser = argparse.ArgumentParser(description="Repeat the paper's evaluation on networks of it.")
    parser.add_argument("names", nargs="+", choices=NETWORKS)
    parser.add_argument("--frameworks", default=sys.executable, help="interpreter with the frameworks (this one)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each search (%(default)s)")
    parser.add_argument("--protocol", choices=(PAIRED, CF22), default=PAIRED)
    parser.add_argument("--longest", type=float, default=300.0, help="seconds of -O3's runs by cf22 (%(default)s)")
    parser.add_argument("--orders", type=int, default=10, help="orders of each selection (%(default)s)")
    parser.add_argument("--compiles", type=int, default=3, help="compiles of each by `attribute` (%(default)s)")
    parser.add_argument("--results", type=Path, help="folder of the results (benchmarks/results/relay/cf22)")
    parser.add_argument("--winners", type=Path, help="folder with the searches whose winners are measured (--results)")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    options = parser.parse_args()
    try:
        for name in options.names:
            evaluate(name, options)
    except PassSearchError as error:  # such as a toolchain without the network's framework
        sys.exit(f"error: {error}")


def evaluate(name: str, options: argparse.Namespace) -> None:
    """Run the missing steps of one network, and write every result before the next step begins."""
    file = (options.results or RESULTS / "relay" / "cf22") / f"{name}.json"
    earlier = json.loads(file.read_text()) if file.exists() else {"network": name}
    keys = {CF22 if step == "compare" and options.protocol == CF22 else step: step for step in STEPS}
    missing = {key: step for key, step in keys.items() if step in options.steps and key not in earlier}
    if not missing:
        print(f"{name}: `{file}` has these steps; to measure them here, give another --results.", file=sys.stderr)
        return
    subject = prepare(name, options)
    document = subject.document
    document |= earlier
    refuse_other_machine(subject)
    file.parent.mkdir(parents=True, exist_ok=True)
    for key, step in missing.items():
        print(f"{name}: {key}", file=sys.stderr, flush=True)
        document[key] = {**provenance(subject.session), **STEPS[step](subject)}
        write_json(file, document)


def refuse_other_machine(subject: Subject) -> None:
    """Exit if the results so far are of another machine: numbers of two machines must not share a table."""
    here = provenance(subject.session)
    for name, step in subject.document.items():
        others = differences(step, here) if isinstance(step, dict) else []
        if others:
            found = "; ".join(f"{key} {there!r} there, {now!r} here" for key, there, now in others)
            sys.exit(f"`{name}` of {subject.name} was measured elsewhere: {found}. Give another --results.")


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return what makes two machines incomparable: name, value there and value here.

    Memory and kernel differ by a little from one start of a virtual machine to the next, and change no kernel's speed.
    """
    pairs = [(key, there["device"].get(key), here["device"].get(key)) for key in ("name", "cores", "threads")]
    pairs.append(("target", there["target"], here["target"]))
    return [pair for pair in pairs if pair[1] != pair[2]]


def prepare(name: str, options: argparse.Namespace) -> Subject:
    """Build the network if need be, and open its session once to choose compiler and target."""
    folder = RUNS / "networks" / name
    file = folder / "network.json"
    if not file.exists() or json.loads(file.read_text()).get("edition") != edition():
        command = [options.frameworks, str(HERE / "networks.py"), name, "--out", str(folder.parent)]
        subprocess.run(command, check=True)
    network = json.loads(file.read_text())
    path, inputs = str(folder / network["path"]), dict(parse_input(text) for text in network["inputs"])
    target = None if options.device == "cpu" else options.device
    with passsearch.session(path, inputs=inputs, toolchain="relay", target=target) as evaluator:
        session = evaluator.session
    # The stem names network, compiler and device, so runs of different ones stay apart.
    return Subject(name, session, path, inputs, RUNS / session.cache_path.stem, options)


def agree(subject: Subject) -> dict[str, Any]:
    """Compare outputs of the imported network, built without optimisation, with the framework's outputs."""
    with subject.evaluator() as evaluator:
        built = build(evaluator, Candidate())
        built = built if isinstance(built, Failure) else evaluator.restore(built)
        if isinstance(built, Failure):
            return {"failure": built.to_json()}
        cases = Path(subject.path).with_name("cases.npz")
        deviations = run_in_toolchain(subject, "agree.py", str(built.folder), str(cases), subject.session.device)
    agrees = all(deviation is not None and deviation <= MAX_DEVIATION for deviation in deviations)
    return {"deviations": deviations, "limit": MAX_DEVIATION, "agrees": agrees}


def run_in_toolchain(subject: Subject, script: str, *arguments: str) -> Any:
    """Run a script in the toolchain's interpreter and return the JSON in the last line of its output."""
    command = [str(subject.session.toolchain.python), str(HERE / script), *arguments]
    # TVM's warnings go to standard error, which the user sees; some of its passes also print.
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def analyze(subject: Subject) -> dict[str, Any]:
    """Return features, classes, the passes they select, and the effect of each pass of the paper."""
    session = subject.session
    catalog = session.catalog
    version = session.toolchain.tvm_version
    with subject.evaluator() as evaluator:
        analysis = analyze_network(session, evaluator.network.summary)
        features = analysis.fingerprint.present_features()
        steps = [PassSpec.of(entry.name) for entry in catalog.entries.values() if entry.paper]
        effects = {
            step.name: effect(evaluator, insert_prerequisites(Pipeline((step,)), catalog, features=features))
            for step in steps
        }
    every = select_passes(catalog, (), fingerprint=Fingerprint(), tvm_version=version).candidates
    selected = analysis.selection.candidates
    return {
        "features": {name: feature.count for name, feature in analysis.fingerprint.features.items() if feature.count},
        "classes": list(analysis.class_names),
        "passes": {"all": len(every), "classes": len(selected)},
        "choices": {"all": count_choices(every), "classes": count_choices(selected)},
        "effects": effects,
    }


def count_choices(decisions: Sequence[PassDecision]) -> int:
    """Return the number of passes, each counted with every choice of arguments that is searched."""
    return sum(len(decision.entry.variants()) for decision in decisions)


def effect(evaluator: WorkerEvaluator, pipeline: Pipeline) -> str:
    """Return what the last pass does after those it needs: ``changes``, ``nothing``, or its failure."""
    before, after = (evaluator.reach(Pipeline(steps)) for steps in (pipeline.passes[:-1], pipeline.passes))
    if isinstance(after, Failure):
        return f"{after.kind}: {after.reason}"
    return "nothing" if after == before else "changes"


def search(objective: str) -> Callable[[Subject], dict[str, Any]]:
    """Return the step that searches for one objective."""

    def tune(subject: Subject) -> dict[str, Any]:
        result = passsearch.tune(
            subject.path,
            inputs=subject.inputs,
            toolchain=subject.session.toolchain.name,
            objective=objective,
            trials=subject.options.trials,
            timeout=subject.options.timeout,
            target=subject.session.target,
            out=subject.folder / objective,
            progress=lambda text, done, total: print(f"  {text} {done}/{total}", file=sys.stderr, flush=True),
        )
        # An interrupted search has a result too. It must not be written, so that the next call continues the search.
        if result.document["interrupted"]:
            raise KeyboardInterrupt
        return {key: without_samples(result.document[key]) for key in SEARCH_KEYS}

    return tune


def audit(subject: Subject) -> dict[str, Any]:
    """Confirm the result of the search for throughput once more, if it claims a gain."""
    folder = subject.folder / "throughput"
    if not read_result(folder)["verdict"]["improved"]:
        return {"unavailable": "no gain in throughput to confirm"}
    document = passsearch.audit(folder, progress=show)
    return {
        key: without_samples(value) for key, value in document.items() if key not in ("model", "device", "toolchain")
    }


def compare(subject: Subject) -> dict[str, Any]:
    """Time the paper's selections and the results of the searches against -O3, interleaved."""
    session = subject.session
    with subject.evaluator() as evaluator:
        analysis = analyze_network(session, evaluator.network.summary)
        paper = paper_candidates(subject.name, analysis.class_names, catalog=session.catalog)
        contenders = [with_prerequisites(session, analysis, candidate) for candidate in paper]
        contenders += search_results(subject)
        slow = {each.name: row for each in contenders if (row := slow_row(evaluator, each))}
        others = [each for each in contenders if each.name not in slow]
        options = comparison_options(evaluator, subject.options)
        compared = compare_candidates([Side(evaluator, [session.dialect.baseline, *others])], options, progress=show)
    document = compared.to_json()
    rows = {row["name"]: without_samples(row) for row in document["rows"]} | slow
    for candidate in contenders:
        rows[candidate.name]["steps"] = [str(step) for step in candidate.pipeline.passes]
    keys = ("baseline", "protocol", "noise_floor", "processes", *(("runs",) if options.protocol == CF22 else ()))
    return {**{key: document[key] for key in keys}, "rows": rows}


def comparison_options(evaluator: WorkerEvaluator, options: argparse.Namespace) -> ComparisonOptions:
    """Return the options of the comparison; the paper's protocol has fewer runs where an inference takes long."""
    if options.protocol != CF22:
        return ComparisonOptions(processes=PROCESSES, protocol=PAIRED)
    baseline = evaluator.session.dialect.baseline
    row = one_process_row(evaluator, baseline)
    if "failure" in row:
        sys.exit(f"{baseline.name} fails: {row['failure']['reason']}")
    return ComparisonOptions(protocol=CF22, runs=capped_runs(row["latency_s"]["median"], options.longest))


def capped_runs(latency_s: float, longest_s: float) -> int:
    """Return the number of runs that are kept: the paper's, or as many as fit into the time, but not below 100."""
    # A tenth more are discarded as warm-ups.
    return max(LEAST_RUNS, min(PAPER_RUNS, int(longest_s / (1.1 * latency_s))))


def permute_selections(subject: Subject) -> dict[str, Any]:
    """Measure several orders of each of the paper's selections, at both build levels."""
    session = subject.session
    with subject.evaluator() as evaluator:
        analysis = analyze_network(session, evaluator.network.summary)
        paper = paper_candidates(subject.name, analysis.class_names, catalog=session.catalog)
        document = permute(evaluator, paper, count=subject.options.orders, processes=PROCESSES, progress=show)
    return dict(without_samples(document))


def attribute(subject: Subject) -> dict[str, Any]:
    """Measure what stands between -O3 and the quickest sequence, and what the catalog's other baselines reach."""
    session = subject.session
    with subject.evaluator() as evaluator:
        analysis = analyze_network(session, evaluator.network.summary)
        found = search_results(subject)
        o3, numpy = session.dialect.baseline, named_candidate(session, "O3-numpy")
        others = session.catalog.baselines(analysis.fingerprint.present_features())
        variants = {each.name: each for each in (o3, numpy, *others, *found) if each.name != SEARCHES["throughput"]}
        compiles = compile_in_turns(evaluator, variants, compiles=subject.options.compiles, progress=show)
        document: dict[str, Any] = {"compiles": compiles, "rows": {}}
        if others:
            options = ComparisonOptions(processes=PROCESSES)
            sides = [Side(evaluator, [o3, *others, *found])]
            compared = compare_candidates(sides, options, progress=show).to_json()
            document |= {key: compared[key] for key in ("noise_floor", "processes")}
            document["rows"] = {row["name"]: without_samples(row) for row in compared["rows"]}
    return document


def search_results(subject: Subject) -> list[Candidate]:
    """Return the winners of the searches that have run, here or in the folder ``--winners``."""
    winners = subject.options.winners
    searched = json.loads((winners / f"{subject.name}.json").read_text()) if winners else subject.document
    best = {name: searched[key]["best"] for key, name in SEARCHES.items() if key in searched}
    return [
        Candidate(Pipeline.parse(row["pipeline"]), BuildOptions.from_json(row["build"]), name)
        for name, row in best.items()
    ]


def profile(subject: Subject) -> dict[str, Any]:
    """Return the time per pass and per kernel of -O3 and of the searches' results; equal ones are profiled once."""
    distinct: dict[tuple[Pipeline, BuildOptions], Candidate] = {}
    for candidate in (subject.session.dialect.baseline, *search_results(subject)):
        distinct.setdefault((candidate.pipeline, candidate.build), candidate)
    return {candidate.name: costs(candidate, subject) for candidate in distinct.values()}


def costs(candidate: Candidate, subject: Subject) -> dict[str, Any]:
    """Return what ``costs.py`` measures of one candidate's build, after its own passes."""
    network = subject.folder / "network.json"
    with subject.evaluator() as evaluator:
        applier = evaluator.applier
        applier.save(applier.states(candidate.pipeline)[-1], network)
    device = ("--target", subject.session.target, "--device", subject.session.device)
    options = ("--level", str(candidate.build.opt_level), "--disabled", *candidate.build.disabled)
    document = run_in_toolchain(subject, "costs.py", str(network), *device, *options)
    network.unlink()
    return dict(document)


def acts(subject: Subject) -> dict[str, Any]:
    """Count on how many IRs each pass was applied by all searches together, and on how many it changed something."""
    counts: dict[str, Counter[str]] = {}
    with Log(subject.session.cache_path, writable=False) as cache:
        for edge in recorded_edges(cache):
            counts.setdefault(edge.step.name, Counter())[outcome(edge)] += 1
    return {"passes": {name: dict(outcomes) for name, outcomes in sorted(counts.items())}}


def outcome(recorded: RecordedEdge) -> str:
    """Return the word of the result files for what a pass did to an IR."""
    if isinstance(recorded.edge.target, Failure):
        return "failed"
    return "idle" if recorded.is_no_op else "changed"


def without_samples(value: Any) -> Any:
    """Return a document without raw samples, which would make the results a hundred times larger."""
    if isinstance(value, dict):
        return {key: without_samples(part) for key, part in value.items() if key not in ("samples", "conditions")}
    return [without_samples(part) for part in value] if isinstance(value, list) else value


def show(text: str, *_: int) -> None:
    """Print progress to standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


STEPS: dict[str, Callable[[Subject], dict[str, Any]]] = {
    "agree": agree,
    "analyze": analyze,
    "compile_time": search("compile_time"),
    "throughput": search("throughput"),
    "audit": audit,
    "profile": profile,
    "compare": compare,
    "permute": permute_selections,
    "attribute": attribute,
    "acts": acts,
}

if __name__ == "__main__":
    main()
