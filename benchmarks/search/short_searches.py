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

import os
import shutil
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import passsearch
from benchmarks.common import (
    RESULTS,
    RUNS,
    busy,
    markdown,
    network_session,
    note,
    onnx_model,
    options,
    read_rows,
    write_row,
)
from passsearch.errors import PassSearchError
from passsearch.report import headline_text
from passsearch.results import RunResult

FOLDER = RUNS / "short_searches"
OVERTIME = 0.1
TINY = ("resnet_tiny", "vgg_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny", "llama_tiny")
SLOW = ("slow_convolutions", "slow_products")
"""Networks whose default takes about a second: three convolutions, and two products, of 0.5 GFLOP in all and each."""
FIRST_SEQUENCE = "schedule-cpu"
PROCESSES = 4
"""Processes of the comparison after a search."""
SURE_GAIN = 2.0
"""Throughput over the baseline's that one reading of a search does not put in doubt."""


def source(network: str) -> str:
    """Return the source of a network, written to a file where it is none of the built-in ones."""
    if network not in SLOW:
        return f"zoo:{network}"
    if network == "slow_products":
        shapes, shape = {"w0": (512, 1024), "w1": (1024, 512)}, (512, 512)
        made = [("MatMul", ["x", "w0"], "a"), ("Relu", ["a"], "r"), ("MatMul", ["r", "w1"], "y")]
        nodes = [helper.make_node(kind, inputs, [output]) for kind, inputs, output in made]
    else:
        shapes, shape = {"w0": (32, 3, 3, 3), "w1": (64, 32, 3, 3), "w2": (64, 64, 3, 3)}, (1, 3, 128, 128)
        nodes, value = [], "x"
        for place, name in enumerate(shapes):
            strides = [2, 2] if place else [1, 1]
            nodes.append(helper.make_node("Conv", [value, name], [f"c{place}"], pads=[1, 1, 1, 1], strides=strides))
            nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"]))
            value = f"r{place}"
        nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"]))
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(0, 0.05, size).astype("float32") for name, size in shapes.items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx_model(nodes, {"x": ("float32", shape)}, {"y": None}, weights), str(FOLDER / f"{network}.onnx"))
    return str(FOLDER / f"{network}.onnx")


def search(model: str, *, toolchain: str, limit_s: float, out: Path) -> dict[str, Any]:
    """Search once; return what it took, said and recommends."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.monotonic()
    try:
        document = passsearch.tune(model, toolchain=toolchain, timeout=limit_s, out=out, remember=False).document
    except PassSearchError as error:
        return {"limit_s": limit_s, "wall_s": round(time.monotonic() - start, 1), "failure": str(error)}
    verdict, best, sequence = document["verdict"], document["best"], document["sequence"]
    return {
        "limit_s": limit_s,
        "wall_s": round(time.monotonic() - start, 1),
        "headline": headline_text(RunResult.from_json(document)),
        **{key: verdict[key] for key in ("outcome", "reason", "ratio", "interval", "noise_floor")},
        "baseline": document["baseline"]["name"],
        "best": best["pipeline"],
        "source": best["source"],
        "rejected": document["rejected"] and document["rejected"]["reason"],
        "sequence": sequence and sequence["name"],
        "measured": document["space"]["states_measured"],
    }


def side_by_side(model: str, row: Mapping[str, Any], *, toolchain: str, out: Path) -> dict[str, Any]:
    """Time what a search recommends beside the best sequence and the baseline, unless that is clear; say if it lost."""
    if "failure" in row or row["source"]["kind"] == "baseline":
        return {}
    rival = row["sequence"] or FIRST_SEQUENCE
    is_rival = row["source"] == {"kind": "sequence", "name": rival}
    if is_rival and row["sequence"] and row["ratio"] > SURE_GAIN:
        return {"is_slower": False}
    pipelines = [row["baseline"], str(out.absolute()), *([] if is_rival else [rival])]
    document = passsearch.compare(model, pipelines, toolchain=toolchain, processes=PROCESSES)
    names = [each["name"] for each in document["rows"]]
    best = next(place for place, name in enumerate(names) if name not in (row["baseline"], rival))
    verdicts, is_slower = {}, False
    for pair in document["pairs"]:
        first, second = pair["rows"]
        verdicts[f"{names[second]} / {names[first]}"] = {key: pair.get(key) for key in ("ratio", "interval", "verdict")}
        # Verdicts are of the second over the first.
        is_slower |= (best, pair["verdict"]) in ((second, "slower"), (first, "faster"))
    return {"beside": verdicts, "is_slower": is_slower, "rival": rival}


def table(rows: Mapping[str, Any]) -> str:
    """Return the rows as Markdown, and below them how many pass."""
    lines = []
    for name, row in rows.items():
        cells = [name, f"{row['wall_s']:.0f} s"]
        if "failure" in row:
            lines.append([*cells, row["failure"][:60], "–", "–", "–"])
            continue
        recommended = ", ".join(filter(None, (row["source"]["kind"], row["source"]["name"])))
        is_slower = {True: "yes", False: "no", None: "not compared"}[row.get("is_slower")]
        lines.append([*cells, row["outcome"], f"{row['ratio']:.3g}", recommended, is_slower])
    heads = ("search", "took", "outcome", "throughput / default", "recommended", "slower than beside it")
    late = sum(row["wall_s"] > (1 + OVERTIME) * row["limit_s"] for row in rows.values())
    slower = sum(bool(row.get("is_slower")) for row in rows.values())
    # The baseline is recommended where there was no time to measure a sequence, which may well be faster.
    compared = sum("is_slower" in row for row in rows.values())
    counts = f"{late} took more than the limit and a tenth; {slower} of {compared} recommend what is slower"
    rest = f"{len(rows) - compared} had no time for a sequence, or failed."
    return f"{markdown(heads, lines)}\n\n{len(rows)} searches; {counts}; {rest}"


def main() -> None:
    arguments = options(
        __doc__,
        ("networks", (*TINY, *SLOW, "resnet18")),
        limits="10,20,30,60,120",
        toolchain="relax",
        load=(2, "number of other processes that are busy"),
        out=RESULTS / "short_searches.json",
        table=(False, "print the Markdown from the file"),
    )
    limits_s = [] if arguments.table else map(float, arguments.limits.split(","))
    for limit_s, network in product(limits_s, arguments.networks):
        name = f"{network} {limit_s:g} s"
        if name in read_rows(arguments.out, "searches"):
            continue
        model, out = source(network), FOLDER / name.replace(" ", "-")
        with busy(arguments.load):
            row = search(model, toolchain=arguments.toolchain, limit_s=limit_s, out=out)
            row |= {"load": os.getloadavg()[0], "busy_processes": arguments.load}
            row |= side_by_side(model, row, toolchain=arguments.toolchain, out=out)
        shutil.rmtree(out, ignore_errors=True)
        session = network_session(model, arguments.toolchain)
        write_row(arguments.out, "searches", name=name, row=row, session=session)
        note(f"{name}: {row.get('outcome', row.get('failure'))}, {row['wall_s']} s")
    print(table(read_rows(arguments.out, "searches")))


if __name__ == "__main__":
    main()
