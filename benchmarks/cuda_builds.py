"""Builds networks for CUDA architectures on any machine: ``python benchmarks/cuda_builds.py resnet50 bert_base``.

Each sequence for GPUs of the catalog, and TVM's default pipeline, is compiled for each architecture in a process of its
own, as a deployment compiles. The row of a build has the size of its device code, read from the ELF header, its number
of kernels, and its compile time. No device is needed; ``passsearch toolchain install relax --with cuda`` is.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cubins import read_cubins
from provenance import read_rows, write_row

import passsearch
from passsearch.catalog import load
from passsearch.core import Candidate, Failure
from passsearch.dialects import dialect
from passsearch.evaluate import WorkerEvaluator

RESULTS = Path(__file__).parent / "results" / "cuda_builds.json"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
NETWORKS = ("resnet50", "mobilenet_v2", "bert_base", "ssd_resnet50")
NOTE = "One compile each, on a machine that other programs used meanwhile: the times are indicative."


def main() -> None:
    """Build and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo (%(default)s)")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--arch", nargs="+", default=ARCHITECTURES)
    parser.add_argument("--sequences", nargs="+", help="all by default")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the file")
    options = parser.parse_args()
    for name in options.networks if not options.table else ():
        build_network(name, options)
    print(table(read_rows(options.out, "networks")))


def candidates() -> list[Candidate]:
    """Return the default pipeline and all sequences of the catalog for GPUs."""
    sequences = [
        sequence.candidate() for sequence in load("relax").sequences.values() if sequence.name.endswith("-gpu")
    ]
    return [dialect("relax").baseline, *sequences]


def build_network(name: str, options: argparse.Namespace) -> None:
    """Add a network's builds to the results after every architecture."""
    builds = read_rows(options.out, "networks").get(name, {}).get("builds", {})
    for arch in options.arch:
        target = f"cuda -arch={arch}"
        model = f"zoo:{name}"
        with passsearch.session(model, toolchain=options.toolchain, target=target, remember=False) as evaluator:
            for candidate in candidates():
                if options.sequences and candidate.name not in options.sequences:
                    continue
                row = build(evaluator, candidate)
                builds.setdefault(candidate.name, {})[arch] = row
                print(name, arch, candidate.name, json.dumps(row), file=sys.stderr, flush=True)
            row = {"note": NOTE, "builds": builds}
            write_row(options.out, "networks", name=name, row=row, session=evaluator.session)


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> dict[str, Any]:
    """Compile one candidate in a new process; return sizes and times, or the reason why it did not compile."""
    compiled = evaluator.compile_fresh(candidate.name, candidate, timing_key="", kinds=())
    if isinstance(compiled, Failure):
        return {"failure": f"{compiled.kind}: {compiled.reason}"}
    (library,) = compiled.folder.glob("*.so")
    cubins = read_cubins(library)
    return {
        "architectures": sorted({cubin.arch for cubin in cubins}),
        "cubin_bytes": sum(cubin.bytes for cubin in cubins),
        "code_bytes": sum(cubin.code_bytes for cubin in cubins),
        "kernels": sum(len(cubin.kernels) for cubin in cubins),
        "code": [cubin.digest[:16] for cubin in cubins],
        "compile_s": round(compiled.compile_s, 2),
        "parts_s": {part: round(seconds, 2) for part, seconds in compiled.parts_s.items()},
    }


def table(networks: Mapping[str, Any]) -> str:
    """Return one line per network and sequence: kernels, and per architecture the size of the cubin and the time."""
    lines = [f"| network | sequence | kernels | {' | '.join(ARCHITECTURES)} |", "|---" * (3 + len(ARCHITECTURES)) + "|"]
    for name, row in networks.items():
        for sequence, builds in row["builds"].items():
            kernels = {str(build["kernels"]) for build in builds.values() if "kernels" in build}
            cells = [name, sequence, "/".join(sorted(kernels)), *_cells(builds)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(builds: Mapping[str, Any]) -> Iterator[str]:
    for arch in ARCHITECTURES:
        build = builds.get(arch)
        if build is None:
            yield ""
        elif "failure" in build:
            yield build["failure"].partition(":")[0]
        else:
            yield f"{build['cubin_bytes'] / 1024:.0f} KiB, {build['compile_s']:.1f} s"


if __name__ == "__main__":
    main()
