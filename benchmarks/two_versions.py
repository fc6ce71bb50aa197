"""Times a network as this version and another build it: ``python benchmarks/two_versions.py NETWORK --other TREE``.

A change of a schedule's default cannot be asked for by a pipeline, so two versions of passsearch build one sequence,
and this one times both builds side by side, in several processes. ``TREE`` is a checkout of the other version (``git
worktree add TREE COMMIT``). ``benchmarks/results/relax/two_versions.json`` gets the ratios; ``--table`` prints it.

With ``--compiles`` the versions compile in turns instead, each time in a new process, and
``two_versions_compiles.json`` gets the ratios of their compile times.
"""

import argparse
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from provenance import network_session, read_rows, write_row
from schedule_timing import commit_of

import passsearch
from passsearch.core import Candidate, Failure, usable_processors
from passsearch.evaluate import TimedArtifacts, TimingRequest
from passsearch.measure import mean_ratio, process_ratio
from passsearch.search import analyze_network, named_candidate, with_prerequisites

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "relax" / "two_versions.json"
COMPILES = RESULTS.with_name("two_versions_compiles.json")
NETWORKS = {
    **dict.fromkeys(("resnet18", "resnet50", "mobilenet_v2", "ssd_mobilenet"), "nhwc-schedule-cpu"),
    **dict.fromkeys(("vgg19", "unet"), "winograd-schedule-cpu"),
    **dict.fromkeys(("bert_base", "bert_base_16", "gpt2", "vit"), "schedule-cpu"),
}
"""A sequence of the catalog by network."""
OF_FILES = "nhwc-schedule-cpu"
"""That of networks in files."""


def model_of(network: str) -> str:
    """Return what ``tune`` takes for a network of the zoo or a file."""
    return network if network.endswith(".onnx") else f"zoo:{network}"


def build(network: str, folder: Path) -> None:
    """Build a network by the version that runs this, and print the folder of the artifact."""
    with passsearch.session(model_of(network), toolchain="relax", folder=folder, remember=False) as evaluator:
        candidate = _candidate(network, evaluator)
        built = evaluator.build_candidate(candidate)
        if isinstance(built, Failure):
            raise SystemExit(f"{network}: {built.reason}")
        kept = folder.with_suffix(".artifact")
        built.folder.rename(kept)  # the session deletes its artifacts
        print(kept)


def compile_once(network: str) -> None:
    """Compile a network by the version that runs this, as a deployment does, and print the seconds."""
    with passsearch.session(model_of(network), toolchain="relax", remember=False) as evaluator:
        compiled = evaluator.compile_fresh("two versions", _candidate(network, evaluator), timing_key="", kinds=())
        if isinstance(compiled, Failure):
            raise SystemExit(f"{network}: {compiled.reason}")
        print(compiled.apply_s + compiled.build_s)


def _candidate(network: str, evaluator: Any) -> Candidate:
    session = evaluator.session
    analysis = analyze_network(session, evaluator.network.summary)
    return with_prerequisites(session, analysis, named_candidate(session, NETWORKS.get(network, OF_FILES)))


def measure(network: str, other: Path, *, processes: int) -> tuple[dict[str, Any], Any]:
    """Return the ratio of this version's throughput to the other's, and the session."""
    with TemporaryDirectory() as folder:
        places = [_built_by(tree, network, Path(folder) / name) for name, tree in (("other", other), ("this", ROOT))]
        with passsearch.session(model_of(network), toolchain="relax", remember=False) as evaluator:
            artifacts = TimedArtifacts(places[0], (places[1],))
            timed = evaluator.time_fresh(
                TimingRequest("two versions", artifacts, evaluator.plans.final_rounds, processes)
            )
            if isinstance(timed, Failure):
                raise SystemExit(f"{network}: {timed.reason}")
            ratio = process_ratio([(process.baseline, process.candidates[0]) for process in timed.processes])
            row = {
                **_comparison(network, other),
                **ratio.to_json(),
                "fastest_s": [
                    min(min(process.baseline) for process in timed.processes),
                    min(min(process.candidates[0]) for process in timed.processes),
                ],
                "processes": processes,
                "threads": evaluator.session.threads,
            }
            return row, evaluator.session


def measure_compiles(network: str, other: Path, *, times: int) -> tuple[dict[str, Any], Any]:
    """Return the ratio of the other version's compile time to this one's, and the session."""
    seconds: dict[str, list[float]] = {"other": [], "this": []}
    with TemporaryDirectory() as folder:
        trees = [("other", other), ("this", ROOT)]
        for turn in range(times):
            # Each version is the first one in half of the turns.
            for name, tree in trees if turn % 2 == 0 else reversed(trees):
                seconds[name].append(float(_run(tree, [network, "--compile"], Path(folder))))
    ratio = mean_ratio([math.log(before / now) for before, now in zip(*seconds.values(), strict=True)])
    session = network_session(model_of(network), toolchain="relax")
    row = {**_comparison(network, other), **ratio.to_json(), "seconds": seconds, "processors": len(usable_processors())}
    return row, session


def _comparison(network: str, other: Path) -> dict[str, Any]:
    return {"sequence": NETWORKS.get(network, OF_FILES), "other": commit_of(other)}


def _built_by(tree: Path, network: str, folder: Path) -> Path:
    return Path(_run(tree, [network, "--build", str(folder)], folder.parent))


def _run(tree: Path, options: list[str], folder: Path) -> str:
    """Run this program with another version of passsearch; return the last line that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, __file__, *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
    return done.stdout.splitlines()[-1]


def compile_table(rows: dict[str, Any]) -> str:
    """Return Markdown of compile times."""
    lines = ["| network | before, s | now, s | compile time before / now | processors |", "|---|---:|---:|---|---:|"]
    for name, row in rows.items():
        before, now = (f"{median(seconds):.1f}" for seconds in row["seconds"].values())
        low, high = row["interval"]
        ratio = f"{row['ratio']:.2f} [{low:.2f}, {high:.2f}]"
        lines.append(f"| {name} | {before} | {now} | {ratio} | {row['processors']} |")
    return "\n".join(lines)


def table(rows: dict[str, Any]) -> str:
    """Return Markdown."""
    lines = ["| network | before, ms | now, ms | throughput now / before | threads |", "|---|---:|---:|---|---:|"]
    for name, row in rows.items():
        before, now = (f"{1e3 * seconds:.2f}" for seconds in row["fastest_s"])
        low, high = row["interval"]
        lines.append(f"| {name} | {before} | {now} | {row['ratio']:.3f} [{low:.3f}, {high:.3f}] | {row['threads']} |")
    return "\n".join(lines)


def main() -> None:
    """Measure networks, or build one for another process, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(NETWORKS)}, or ONNX files")
    parser.add_argument("--other", type=Path, help="checkout of the other version")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--compiles", type=int, metavar="N", help="compare compile times instead, N by each version")
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the JSON")
    options = parser.parse_args()
    if options.build:
        build(options.networks[0], options.build)
        return
    if options.compile:
        compile_once(options.networks[0])
        return
    results = COMPILES if options.compiles else RESULTS
    paths = [str(Path(each).resolve()) if each.endswith(".onnx") else each for each in options.networks]
    for network in [] if options.table else paths:
        other = options.other.resolve()
        row, session = (
            measure_compiles(network, other, times=options.compiles)
            if options.compiles
            else measure(network, other, processes=options.processes)
        )
        # One network may be in several comparisons.
        name = f"{Path(network).stem} beside {row['other']}"
        write_row(results, "networks", name=name, row=row, session=session)
    print((compile_table if options.compiles else table)(read_rows(results, "networks")))


if __name__ == "__main__":
    main()
