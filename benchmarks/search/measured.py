"""Reads and writes measured spaces, the files in ``benchmarks/spaces``."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from passsearch.core import BuildOptions, Candidate
from passsearch.evaluate import Closure

SPACES = Path(__file__).parent / "spaces"
KEEP = 0.98
"""Share of -O3's throughput that a candidate must have to count as no slower than -O3."""


def read_space(file: Path) -> dict[str, Any]:
    """Return a space in which every build that succeeded has ``compile_seconds``, comparable between builds.

    Candidates that were compiled several times have ``compile_s``. Each of these compiles is divided by -O3's compile
    of the same round, and the geometric mean of the ratios is multiplied by -O3's median. All others were built once,
    in a process that had compiled before and was therefore quicker. Their time is multiplied by the factor between
    -O3's median and its single build.
    """
    document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    baseline = document["builds"][0]
    factor = median(baseline["compile_s"]) / single_build_s(baseline) if "compile_s" in baseline else 1.0
    for row in document["builds"]:
        if "failure" in row:
            continue
        row["compile_seconds"] = factor * single_build_s(row)
        if "compile_s" in row:
            ratios = [one / other for one, other in zip(row["compile_s"], baseline["compile_s"], strict=True)]
            row["compile_seconds"] = median(baseline["compile_s"]) * geometric_mean(ratios)
    return document


def write_space(file: Path, document: dict[str, Any]) -> None:
    """Write a space without its ``compile_seconds``, compressed; equal content gives equal files."""
    for row in document["builds"]:
        row.pop("compile_seconds", None)
    file.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(file, "wb", mtime=0) as sink:
        sink.write(json.dumps(document, allow_nan=False).encode())


def single_build_s(row: dict[str, Any]) -> float:
    """Return the seconds to apply the cheapest pipeline and to build, each once, in a process that compiled before."""
    return float(row["apply_s"] + row["build_s"])


def contenders(document: dict[str, Any], *, close: float) -> list[dict[str, Any]]:
    """Return the builds that may be the quickest compile: -O3, and those no slower that were built in little time.

    Args:
        document: The space.
        close: Longest single build, as a multiple of the shortest.
    """
    rows = [row for row in document["builds"] if row.get("ratio", 0.0) >= KEEP]
    shortest_s = min(map(single_build_s, rows))
    return [row for row in rows if row is document["builds"][0] or single_build_s(row) <= close * shortest_s]


def candidate(closure: Closure, row: Mapping[str, Any]) -> Candidate:
    """Return the candidate of one build of a space, with the cheapest pipeline to its state."""
    pipeline, _ = closure.graph.cheapest(closure.states[row["state"]])
    return Candidate(pipeline, BuildOptions(opt_level=row["opt_level"]))
