"""Networks that suffer from too much or too little fusion: what `tune` finds, beside pipelines made by hand.

They are the graphs of two reports by TVM's users.

* ``exponentials`` (apache/tvm #20342): a chain of eight ``exp`` on [1024, 1], added to a matrix of [1024, 1024]. Fused,
  the chain runs for every element of the matrix. The report has 4096 rows in float16.
* ``pools`` (apache/tvm #20401): nine additions and two levels of concatenations, a max pool and two additions, both of
  which are outputs.

``python benchmarks/fusion_graphs.py FOLDER`` writes them as ONNX files. With ``--measure``, `passsearch tune` searches
each of them, told nothing but the file, and one `passsearch compare` measures the winner beside pipelines made by hand;
``benchmarks/results/fusion_graphs.json`` has the answers, and ``--table`` prints them. Ten minutes.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

import passsearch

FOUND = "found by tune"
RESULTS = Path(__file__).parent / "results" / "fusion_graphs.json"
DEPTH, ROWS = 8, 1024
BRANCHES, CHANNELS, SIDE = 3, 16, 64


FUSED = (
    'LegalizeOps,AnnotateTIROpPattern,FoldConstant{{evaluator="numpy"}},CutFusion{cuts},FuseRows,'
    "FuseOps{{fuse_opt_level=2}},FuseTIR,ExpandMath,ScheduleRows,ScheduleCPU,StaticPlanBlockMemory"
)
WHOLE = FUSED.replace("CutFusion{cuts},", "").format()
UNFUSED = 'LegalizeOps,FoldConstant{evaluator="numpy"},ExpandMath,ScheduleRows,ScheduleCPU,StaticPlanBlockMemory'


def cut(*values: int) -> str:
    """Return the pipeline that ends fusion at values, given by their positions in the graph."""
    return FUSED.format(cuts=f"{{values={[*values]}}}".replace(" ", ""))


BY_HAND: Mapping[str, Mapping[str, str]] = {
    "exponentials": {
        "all fused": WHOLE,
        "nothing fused": UNFUSED,
        "cut at the broadcast": cut(23),
        "cut at every exp": cut(*range(2, 24, 3)),
    },
    "pools": {
        "all fused": WHOLE,
        "nothing fused": UNFUSED,
        "cut after the leaves": cut(0, 1, 2, 4, 5, 6, 8, 9, 10),
        "cut after the inner concatenations": cut(3, 7, 11),
        "cut before the outer concatenation": cut(12, 13, 14),
        "cut after the pool": cut(16),
        "equal values once": f"EliminateCommonSubexpr,{WHOLE}",
        "equal values once, nothing fused": f"EliminateCommonSubexpr,{UNFUSED}",
        "equal values once, cut after the inner concatenation": f"EliminateCommonSubexpr,{cut(1)}",
        "equal values once, cut before the outer concatenation": f"EliminateCommonSubexpr,{cut(2)}",
        "equal values once, cut after the pool": f"EliminateCommonSubexpr,{cut(4)}",
    },
}


def main() -> None:
    """Write the networks, measure what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the networks and runs")
    parser.add_argument("--measure", action="store_true", help="search, and compare with what is made by hand")
    parser.add_argument("--timeout", type=float, default=240, help="seconds of each search (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    documents: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, make in GRAPHS.items():
        file = options.folder / f"{name}.onnx"
        onnx.save(make(), file)
        if options.measure and name not in documents:
            documents[name] = measure(name, file, timeout_s=options.timeout)
            RESULTS.write_text(json.dumps(documents, indent=1) + "\n")
    if options.measure or options.table:
        print(table(documents))


def measure(name: str, file: Path, *, timeout_s: float) -> dict[str, Any]:
    """Return what a search finds, and how it compares with TVM's default and the pipelines made by hand."""
    run = file.with_suffix("")
    result = passsearch.tune(file, toolchain="relax", timeout=timeout_s, out=run, progress=True)
    pipelines = ["default", str(run), *BY_HAND[name].values()]
    compared = passsearch.compare(file, pipelines, toolchain="relax", processes=6)
    names = ["default", FOUND, *BY_HAND[name]]
    rows = [_row(label, row) for label, row in zip(names, compared["rows"], strict=True)]
    pairs = [_pair(names, pair) for pair in compared["pairs"] if 1 in pair["rows"]]
    best = {key: result.document["best"].get(key) for key in ("pipeline", "source", "name")}
    search = {key: result.document[key] for key in ("verdict", "seconds", "space")}
    about = {key: compared[key] for key in ("device", "target", "processes")}
    return {"date": date.today().isoformat(), **about, "best": best, **search, "rows": rows, "pairs": pairs}


def _row(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("pipeline", "ratio", "same_binary_as", "failure") if key in row}
    latency_s = {key: row["latency_s"][key] for key in ("median", "interval")} if "latency_s" in row else {}
    return {"name": name, "latency_s": latency_s, **kept}


def _pair(names: Sequence[str], pair: Mapping[str, Any]) -> dict[str, Any]:
    first, second = (names[place] for place in pair["rows"])
    return {**{key: pair[key] for key in pair if key != "rows"}, "first": first, "second": second}


def table(documents: Mapping[str, Any]) -> str:
    """Return Markdown: for each network every pipeline, the fastest first."""
    lines = ["| network | pipeline | median, ms | throughput / default |", "|---|---|---:|---|"]
    for name, document in documents.items():
        rows = sorted(document["rows"], key=lambda row: row["latency_s"].get("median", 1e9))
        lines += [f"| {name} | {row['name']} | {_cells(row)} |" for row in rows]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> str:
    if "failure" in row:
        return f"– | {row['failure']}"
    ratio = row.get("ratio")
    times = f"{ratio['ratio']:.1f} [{ratio['interval'][0]:.1f}, {ratio['interval'][1]:.1f}]" if ratio else "–"
    same = f" (binary of {row['same_binary_as']})" if row.get("same_binary_as") else ""
    return f"{1e3 * row['latency_s']['median']:.3f} | {times}{same}"


def exponentials(depth: int = DEPTH, rows: int = ROWS) -> onnx.ModelProto:
    """Return ``b + z`` with ``z = exp(x - z / 2)``, ``depth`` times from ``z = x``."""
    nodes, value = [], "x"
    for step in range(depth):
        nodes += [
            helper.make_node("Mul", [value, "half"], [f"half{step}"]),
            helper.make_node("Sub", ["x", f"half{step}"], [f"rest{step}"]),
            helper.make_node("Exp", [f"rest{step}"], [f"exp{step}"]),
        ]
        value = f"exp{step}"
    nodes.append(helper.make_node("Add", ["b", value], ["y"]))
    return _model(nodes, {"x": [rows, 1], "b": [rows, rows]}, {"y": [rows, rows]}, {"half": 0.5})


def pools(branches: int = BRANCHES, channels: int = CHANNELS, side: int = SIDE) -> onnx.ModelProto:
    """Return additions, concatenations, a max pool and two additions."""
    nodes: list[NodeProto] = []
    for outer in range(branches):
        leaves = [f"leaf{outer}_{inner}" for inner in range(branches)]
        nodes += [helper.make_node("Add", ["x", "one"], [leaf]) for leaf in leaves]
        nodes.append(helper.make_node("Concat", leaves, [f"joined{outer}"], axis=1))
        nodes.append(helper.make_node("Add", [f"joined{outer}", "one"], [f"branch{outer}"]))
    nodes += [
        helper.make_node("Concat", [f"branch{outer}" for outer in range(branches)], ["joined"], axis=1),
        helper.make_node("MaxPool", ["joined"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["pool", "one"], ["y"]),
        helper.make_node("Add", ["y", "one"], ["z"]),
    ]
    shape = [1, channels * branches * branches, side // 2, side // 2]
    return _model(nodes, {"x": [1, channels, side, side]}, {"y": shape, "z": shape}, {"one": 1.0})


def _model(
    nodes: list[NodeProto], inputs: dict[str, list[int]], outputs: dict[str, list[int]], numbers: dict[str, float]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "fusion",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(value, "float32"), name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {"exponentials": exponentials, "pools": pools}


if __name__ == "__main__":
    main()
