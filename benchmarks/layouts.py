"""How much a layout for each convolution could gain over one layout for all: ``python benchmarks/layouts.py``.

Profiles each network with its channels last and with its channels first, and compares the two times of each kind of
convolution. The bound assumes that every convolution has the faster layout, that transforms between layouts cost
nothing, and that operators behind a convolution with channels first do, too: there they are kernels of their own, which
the time of the convolution leaves out. It adds up gains only, so that noise makes it larger.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import passsearch

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "ssd_mobilenet", "unet")
LAST, FIRST = "nhwc-schedule-cpu", "schedule-cpu"
"""Sequences with channels last and first. They number their kinds of convolutions in the same order."""
RESULTS = Path(__file__).parent / "results" / "relax" / "layouts.json"
_CONVOLUTION = re.compile(r"(?<![a-z])conv2d\d*(?![a-z\d]|_transpose)")


def main() -> None:
    """Measure the networks that the file of results lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo (%(default)s)")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for network in options.networks:
        if network not in rows:
            rows[network] = measure(network, options.toolchain)
            options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print(table({network: rows[network] for network in options.networks}))


def measure(network: str, toolchain: str) -> dict[str, Any]:
    """Return the times of a network and of each kind of its convolutions, by layout."""
    document = passsearch.profile(f"zoo:{network}", [LAST, FIRST], toolchain=toolchain)
    last, first = document["pipelines"]
    times = {row["name"]: convolutions(row["kernels"]) for row in (last, first)}
    assert times[LAST].keys() == times[FIRST].keys(), "the two sequences have different kinds of convolutions"
    for kind in times[LAST]:
        (calls, _, operations), (other_calls, _, other_operations) = (rows[kind] for rows in times.values())
        # What is fused behind a convolution adds operations, and so does padding, most to a depthwise one.
        is_one = calls == other_calls and 0.5 < other_operations / operations < 2.0
        assert is_one, f"the two sequences number their convolutions differently: {kind}"
    return {
        **{key: document[key] for key in ("measured_at", "device", "target", "toolchain", "threads")},
        "network_s": {row["name"]: row["whole_s"] for row in (last, first)},
        "convolutions_s": {
            kind: {"calls": calls, **{name: rows[kind][1] for name, rows in times.items()}}
            for kind, (calls, _, _) in times[LAST].items()
        },
    }


def convolutions(kernels: list[Mapping[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Return calls, seconds and operations of each kind of convolution, with whatever is fused behind it."""
    kinds: dict[str, tuple[int, float, float]] = defaultdict(lambda: (0, 0.0, 0.0))
    for kernel in kernels:
        if named := _CONVOLUTION.search(kernel["kernel"]):
            calls, seconds, operations = kinds[named[0]]
            kinds[named[0]] = (
                calls + kernel["calls"],
                seconds + kernel["seconds"],
                operations + kernel["calls"] * kernel["flops"],
            )
    return dict(kinds)


def table(rows: Mapping[str, Any]) -> str:
    """Return one line per network: its time by layout, and the bound."""
    lines = ["| network | channels last, ms | channels first, ms | kinds faster with channels first | gain at most |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for network, row in rows.items():
        last, first = (row["network_s"][name] for name in (LAST, FIRST))
        gains = [kind[LAST] - kind[FIRST] for kind in row["convolutions_s"].values()]
        faster = [gain for gain in gains if gain > 0]
        bound = last / (last - sum(faster))
        counts = f"{len(faster)} of {len(gains)}"
        lines.append(f"| {network} | {1e3 * last:.2f} | {1e3 * first:.2f} | {counts} | {bound:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
