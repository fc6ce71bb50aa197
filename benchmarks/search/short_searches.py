"""Short searches on a busy machine: ``python -m benchmarks.search.short_searches --load 2``.

Searches each of ten networks with each of five time limits from 10 to 120 s, while other processes keep the machine
busy. Some of the networks have a default that takes seconds, because Relax's has no schedules. After each search, what
it recommends is timed anew beside the baseline and beside the best sequence that it measured, or the catalog's first
one. The best sequence itself is not, if the search read twice the baseline's throughput of it: it was measured beside
the baseline already. A search passes if it took no more than its limit and a tenth, and if what it recommends is not
slower than either beyond the noise.

``benchmarks/results/short_searches.json``, or the file that ``--out`` names, has a row for each search; searches in it
are not repeated. ``--table`` prints Markdown.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import passsearch
from benchmarks.common import network_session, read_rows, write_row
from benchmarks.measurement.fresh_pairs import load
from passsearch.errors import PassSearchError
from passsearch.report import headline_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "short_searches.json"
RUNS = ROOT.parent / "runs" / "short_searches"
LIMITS_S = (10, 20, 30, 60, 120)
OVERTIME = 0.1
TINY = ("resnet_tiny", "vgg_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny", "llama_tiny")
FIRST_SEQUENCE = "schedule-cpu"
PROCESSES = 4
"""Processes of the comparison after a search."""
SURE_GAIN = 2.0
"""Throughput over the baseline's that one reading of a search does not put in doubt."""


def slow_convolutions() -> tuple[list[NodeProto], dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return a network whose default takes about a second: three convolutions of 0.5 GFLOP in all."""
    shapes = {"w0": (32, 3, 3, 3), "w1": (64, 32, 3, 3), "w2": (64, 64, 3, 3)}
    nodes, value = [], "x"
    for place, name in enumerate(shapes):
        stride = 2 if place else 1
        attributes = {"pads": [1, 1, 1, 1], "strides": [stride, stride]}
        nodes.append(helper.make_node("Conv", [value, name], [f"c{place}"], **attributes))
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"]))
        value = f"r{place}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"]))
    return nodes, shapes, (1, 3, 128, 128)


def slow_products() -> tuple[list[NodeProto], dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return a network whose default takes about a second: two products of 0.5 GFLOP each."""
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"]),
    ]
    return nodes, {"w0": (512, 1024), "w1": (1024, 512)}, (512, 512)


SLOW: dict[str, Callable[[], tuple[list[NodeProto], dict[str, tuple[int, ...]], tuple[int, ...]]]] = {
    "slow_convolutions": slow_convolutions,
    "slow_products": slow_products,
}
NETWORKS = (*TINY, *SLOW, "resnet18")


def source(network: str) -> str:
    """Return the source of a network, written to a file where it is none of the built-in ones."""
    if network not in SLOW:
        return f"zoo:{network}"
    nodes, shapes, shape = SLOW[network]()
    rng = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.05, size).astype("float32"), name) for name, size in shapes.items()
    ]
    graph = helper.make_graph(
        nodes,
        network,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    RUNS.mkdir(parents=True, exist_ok=True)
    file = RUNS / f"{network}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(file))
    return str(file)


def search(model: str, *, toolchain: str, limit_s: float, out: Path) -> dict[str, Any]:
    """Search once; return what it took, said and recommends."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic()
    try:
        document = passsearch.tune(model, toolchain=toolchain, timeout=limit_s, out=out, remember=False).document
    except PassSearchError as error:
        return {"limit_s": limit_s, "wall_s": round(time.monotonic() - start, 1), "failure": str(error)}
    wall_s = time.monotonic() - start
    verdict, sequence = document["verdict"], document["sequence"]
    return {
        "limit_s": limit_s,
        "wall_s": round(wall_s, 1),
        "outcome": verdict["outcome"],
        "headline": headline_text(document),
        "reason": verdict["reason"],
        **{key: verdict[key] for key in ("ratio", "interval", "noise_floor")},
        "baseline": document["baseline"]["name"],
        "best": document["best"]["pipeline"],
        "source": document["best"]["source"],
        "rejected": document["rejected"] and document["rejected"]["reason"],
        "sequence": sequence and sequence["name"],
        "measured": document["space"]["states_measured"],
    }


def needs_comparison(row: Mapping[str, Any]) -> bool:
    """Return whether what a search recommends is to be timed beside the baseline and the best sequence."""
    if "failure" in row or row["source"]["kind"] == "baseline":
        return False
    is_sequence = row["source"] == {"kind": "sequence", "name": row["sequence"]}
    return not (is_sequence and row["ratio"] > SURE_GAIN)


def side_by_side(model: str, row: Mapping[str, Any], *, toolchain: str, out: Path) -> dict[str, Any]:
    """Time what a search recommends beside the best sequence and the baseline; return the verdicts."""
    rival = row["sequence"] or FIRST_SEQUENCE
    is_rival = row["source"] == {"kind": "sequence", "name": rival}
    pipelines = [row["baseline"], str(out.absolute()), *([] if is_rival else [rival])]
    document = passsearch.compare(model, pipelines, toolchain=toolchain, processes=PROCESSES)
    verdicts = {}
    for pair in document["pairs"]:
        names = tuple(document["rows"][place]["name"] for place in pair["rows"])
        verdicts[" / ".join(reversed(names))] = {
            "ratio": pair.get("ratio"),
            "interval": pair.get("interval"),
            "verdict": pair["verdict"],
        }
    best = next(place for place, other in enumerate(document["rows"]) if other["name"] not in (row["baseline"], rival))
    is_slower = any(
        pair["rows"][place] == best and pair["verdict"] == verdict
        for pair in document["pairs"]
        for place, verdict in ((1, "slower"), (0, "faster"))  # of the second over the first
    )
    return {"beside": verdicts, "is_slower": is_slower, "rival": rival}


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown, and below them how many pass."""
    titles = ("search", "took", "outcome", "throughput / default", "recommended", "slower than beside it")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, row in rows.items():
        if "failure" in row:
            lines.append(f"| {name} | {row['wall_s']:.0f} s | {row['failure'][:60]} | – | – | – |")
            continue
        source_ = ", ".join(filter(None, (row["source"]["kind"], row["source"]["name"])))
        is_slower = {True: "yes", False: "no", None: "not compared"}[row.get("is_slower")]
        cells = [name, f"{row['wall_s']:.0f} s", row["outcome"], f"{row['ratio']:.3g}", source_, is_slower]
        lines.append("| " + " | ".join(cells) + " |")
    late = sum(row["wall_s"] > (1 + OVERTIME) * row["limit_s"] for row in rows.values())
    slower = sum(bool(row.get("is_slower")) for row in rows.values())
    # The baseline is recommended where there was no time to measure a sequence, which may well be faster.
    compared = sum("is_slower" in row for row in rows.values())
    counts = f"{late} took more than the limit and a tenth; {slower} of {compared} recommend what is slower"
    lines += ["", f"{len(rows)} searches; {counts}; {len(rows) - compared} had no time for a sequence, or failed."]
    return "\n".join(lines)


def requests(networks: list[str], limits_s: list[float], done: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield name, network and limit of every search that is not done."""
    for limit_s, network in product(limits_s, networks):
        name = f"{network} {limit_s:g} s"
        if name not in done:
            yield name, network, limit_s


def main() -> None:
    """Search what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", help=f"networks ({', '.join(NETWORKS)})")
    parser.add_argument("--limits", default=",".join(map(str, LIMITS_S)), metavar="S,S", help="time limits, in seconds")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--load", type=int, default=2, metavar="N", help="number of other processes that are busy")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the Markdown from the file")
    arguments = parser.parse_args()
    limits_s = [float(limit) for limit in arguments.limits.split(",")]
    if not arguments.table:
        for name, network, limit_s in requests(
            arguments.networks or [*NETWORKS], limits_s, read_rows(arguments.out, "searches")
        ):
            model, out = source(network), RUNS / name.replace(" ", "-")
            with load(arguments.load):
                row = search(model, toolchain=arguments.toolchain, limit_s=limit_s, out=out)
                row |= {"load": os.getloadavg()[0], "busy_processes": arguments.load}
                if needs_comparison(row):
                    row |= side_by_side(model, row, toolchain=arguments.toolchain, out=out)
                elif "failure" not in row and row["source"]["kind"] != "baseline":
                    row["is_slower"] = False
            shutil.rmtree(out, ignore_errors=True)
            session = network_session(model, arguments.toolchain)
            write_row(arguments.out, "searches", name=name, row=row, session=session)
            print(f"{name}: {row.get('outcome', row.get('failure'))}, {row['wall_s']} s", file=sys.stderr, flush=True)
    print(table(read_rows(arguments.out, "searches")))


if __name__ == "__main__":
    main()
