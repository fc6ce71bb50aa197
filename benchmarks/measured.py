"""Measured spaces, as ``benchmarks/spaces`` holds them."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from passsearch.core import BuildOptions, Candidate
from passsearch.evaluate.closure import Closure

SPACES = Path(__file__).parent / "spaces"
KEEP = 0.98
"""Share of -O3's throughput that no loss of throughput leaves."""


def read_space(file: Path) -> dict[str, Any]:
    """One space; every build that worked tells its ``compile_seconds``.

    Where it was compiled again, each fresh compile stands beside -O3's of the same round; what counts is the geometric
    mean of these ratios, times -O3's median. A single build in a process that has compiled before is quicker; it counts
    times what repeating made of -O3's.
    """
    document: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    baseline = document["builds"][0]
    factor = median(baseline["compile_s"]) / single_build(baseline) if "compile_s" in baseline else 1.0
    for row in document["builds"]:
        if "failure" in row:
            continue
        row["compile_seconds"] = factor * single_build(row)
        if "compile_s" in row:
            ratios = [one / other for one, other in zip(row["compile_s"], baseline["compile_s"], strict=True)]
            row["compile_seconds"] = median(baseline["compile_s"]) * geometric_mean(ratios)
    return document


def write_space(file: Path, document: dict[str, Any]) -> None:
    """Compressed; equal content gives equal files."""
    for row in document["builds"]:
        row.pop("compile_seconds", None)
    file.parent.mkdir(exist_ok=True)
    with gzip.GzipFile(file, "wb", mtime=0) as sink:
        sink.write(json.dumps(document, allow_nan=False).encode())


def single_build(row: dict[str, Any]) -> float:
    """Seconds to apply the cheapest pipeline and to build, both once and in a process that had compiled before."""
    return float(row["apply_s"] + row["build_s"])


def contenders(document: dict[str, Any], *, close: float) -> list[dict[str, Any]]:
    """-O3 on the network as it is, and what keeps its throughput and was built in at most ``close`` times the least."""
    rows = [row for row in document["builds"] if row.get("ratio", 0.0) >= KEEP]
    quickest = min(map(single_build, rows))
    return [row for row in rows if row is document["builds"][0] or single_build(row) <= close * quickest]


def candidate(closure: Closure, row: Mapping[str, Any]) -> Candidate:
    """What makes one build of a space again, by the cheapest pipeline to its state."""
    pipeline, _ = closure.graph.cheapest(closure.states[row["state"]])
    return Candidate(pipeline, BuildOptions(opt_level=row["opt_level"]))
