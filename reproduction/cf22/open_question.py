"""Answers the paper's open question: ``python open_question.py resnet50_tensorflow --frameworks PYTHON``.

With ``MergeCompilerRegions`` and ``SimplifyInference`` together, the paper's compile time of ResNet-50 from TensorFlow
"almost doubled", and its cause was left open (section 5). Four variants are compiled in turns, each in a new process:
the build alone, after either of the passes, and after both. ``benchmarks/results/<dialect>/open_question.json`` has the
compile times and the parts that they are of; ``--table`` prints the Markdown. A network is one of ``networks.py``, a
file, or ``zoo:NAME``.
"""

import argparse
import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from cells import markdown, span
from networks import NETWORKS
from run import RESULTS, prepare

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import WorkerEvaluator
from passsearch.measure import mean_ratio
from passsearch.search.document import ratio_document

sys.path.insert(0, str(RESULTS.parent))

from provenance import read_rows, write_row

REGIONS, INFERENCE = "MergeCompilerRegions", "SimplifyInference"
VARIANTS = {"neither": "", REGIONS: REGIONS, INFERENCE: INFERENCE, "both": f"{REGIONS},{INFERENCE}"}
"""Passes before the build, by the name of the variant; the first is the reference."""


def measure(evaluator: WorkerEvaluator, *, compiles: int, level: int) -> dict[str, Any]:
    """Return the compiles of every variant, made in turns.

    Args:
        evaluator: Compiles the network.
        compiles: Number of fresh compiles of each variant.
        level: Level of TVM's own build after the passes.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    names = list(VARIANTS)
    for turn in range(compiles):
        # A machine that gets slower meanwhile favours the compile that comes first, so the first changes every time.
        first = turn % len(names)
        for name in (*names[first:], *names[:first]):
            rows[name].append(compile_once(evaluator, name, turn=turn, level=level))
        print(f"{turn + 1} of {compiles} compiles of each variant", file=sys.stderr, flush=True)
    return {"level": level, "variants": rows}


def compile_once(evaluator: WorkerEvaluator, name: str, *, turn: int, level: int) -> dict[str, Any]:
    """Return time, parts and binary of one compile in a new process, or its failure."""
    candidate = Candidate(Pipeline.parse(VARIANTS[name]), BuildOptions(opt_level=level))
    compiled = evaluator.compile_fresh(f"{name}-{turn}", candidate, timing_key="", kinds=())
    if isinstance(compiled, Failure):
        return {"failure": compiled.to_json()}
    # The folder can be as large as the network's parameters, and nothing is timed.
    shutil.rmtree(compiled.folder, ignore_errors=True)
    parts = {part: round(seconds, 4) for part, seconds in compiled.parts_s.items()}
    return {"compile_s": compiled.compile_s, "apply_s": compiled.apply_s, "parts_s": parts, "binary": compiled.digest}


def table(networks: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/paper.md``."""
    heads = ["network", "passes before the build", "compiles in", "times neither", "of that passes", "constants"]
    rows = []
    for network, row in networks.items():
        reference, *_ = row["variants"].values()
        for name, compiles in row["variants"].items():
            rows.append([network, name, *cells(compiles, reference)])
    return markdown([*heads, "same binary as neither"], rows)


def cells(compiles: list[dict[str, Any]], reference: list[dict[str, Any]]) -> list[str]:
    """Return the cells of one variant; the ratio is of pairs of compiles in one turn, with its 95 % interval."""
    failures = [row["failure"] for row in compiles if "failure" in row]
    if failures:
        return [f"{failures[0]['kind']}: {failures[0]['reason']}", "–", "–", "–", "–"]
    pairs = [log(row["compile_s"] / other["compile_s"]) for row, other in zip(compiles, reference, strict=True)]
    parts = [f"{median(row['parts_s'][part] for row in compiles):.1f} s" for part in ("passes", "constants")]
    same = {row["binary"] for row in compiles} == {row["binary"] for row in reference}
    seconds = median(row["compile_s"] for row in compiles)
    return [f"{seconds:.1f} s", span(ratio_document(mean_ratio(pairs))), *parts, "yes" if same else "no"]


def open_network(name: str, options: argparse.Namespace) -> AbstractContextManager[WorkerEvaluator]:
    """Open one of the paper's networks, which its framework builds if need be, or any other network."""
    if name not in NETWORKS:
        return passsearch.session(name, toolchain=options.toolchain, remember=False)
    subject = prepare(name, options)
    settings = {"inputs": subject.inputs, "toolchain": subject.session.toolchain.name, "target": subject.session.target}
    return passsearch.session(subject.path, **settings, remember=False)


def main() -> None:
    """Compile the variants of one network and add them to the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?")
    parser.add_argument("--frameworks", default=sys.executable, help="interpreter with the frameworks (this one)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")
    parser.add_argument("--toolchain", default="relay", help="toolchain of a network that is not the paper's")
    parser.add_argument("--compiles", type=int, default=5, help="fresh compiles of each variant (%(default)s)")
    parser.add_argument("--level", type=int, default=3, help="level of TVM's own build (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS / "relay" / "open_question.json")
    parser.add_argument("--table", action="store_true", help="print the Markdown from the JSON")
    options = parser.parse_args()
    if not options.table:
        with open_network(options.network, options) as evaluator:
            row = measure(evaluator, compiles=options.compiles, level=options.level)
            name = evaluator.session.model.name
            write_row(options.results, "networks", name=name, row=row, session=evaluator.session)
    print(table(read_rows(options.results, "networks")))


if __name__ == "__main__":
    main()
