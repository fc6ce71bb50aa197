"""Answers the paper's open question: ``python open_question.py resnet50_tensorflow --frameworks PYTHON``.

With ``MergeCompilerRegions`` and ``SimplifyInference`` together, the paper's compile time of ResNet-50 from TensorFlow
"almost doubled", and its cause was left open (section 5). Four variants are compiled in turns, each in a new process:
the build alone, after either of the passes, and after both. ``benchmarks/results/<dialect>/open_question.json`` has the
compile times and the parts that they are of; ``--table`` prints the Markdown. A network is one of ``networks.py``, a
file, or ``zoo:NAME``.
"""

import argparse
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from cells import markdown, span
from networks import NETWORKS
from run import RESULTS, prepare, show
from turns import compile_in_turns, compile_ratio

import passsearch
from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.evaluate import WorkerEvaluator

sys.path.insert(0, str(RESULTS.parent))

from provenance import read_rows, write_row

REGIONS, INFERENCE = "MergeCompilerRegions", "SimplifyInference"
VARIANTS = {"neither": "", REGIONS: REGIONS, INFERENCE: INFERENCE, "both": f"{REGIONS},{INFERENCE}"}
"""Passes before the build, by the name of the variant; the first is the reference."""


def variants(level: int) -> dict[str, Candidate]:
    """Return the candidates by name; ``level`` is that of TVM's own build after the passes."""
    return {name: Candidate(Pipeline.parse(passes), BuildOptions(opt_level=level)) for name, passes in VARIANTS.items()}


def table(networks: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/paper.md``."""
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
    parts = [f"{median(row['parts_s'][part] for row in compiles):.1f} s" for part in ("passes", "constants")]
    same = {row["binary"] for row in compiles} == {row["binary"] for row in reference}
    seconds = median(row["compile_s"] for row in compiles)
    return [f"{seconds:.1f} s", span(compile_ratio(compiles, reference)), *parts, "yes" if same else "no"]


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
            rows = compile_in_turns(evaluator, variants(options.level), compiles=options.compiles, progress=show)
            row = {"level": options.level, "variants": rows}
            name = evaluator.session.model.name
            write_row(options.results, "networks", name=name, row=row, session=evaluator.session)
    print(table(read_rows(options.results, "networks")))


if __name__ == "__main__":
    main()
