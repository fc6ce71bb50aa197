"""Times every pass and every kernel of one build: ``python costs.py NETWORK.json --target T``.

Runs in the toolchain's interpreter (TVM and numpy only) and prints JSON. Kernels are timed one by one, so their sum is
not the latency of the network; their shares are the result.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib.debugger import debug_executor

REPEATS = 5
_LINE = re.compile(r"^(\t*)(\S+): \d+us \[(\d+)us\]")


def main() -> None:
    """Profile one network and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--disabled", nargs="*", default=[], help="passes the build leaves out")
    arguments = parser.parse_args()
    module = tvm.ir.load_json(arguments.network.read_text())
    module = relay.transform.InferType()(module)
    timing = tvm.ir.instrument.PassTimingInstrument()
    start = time.perf_counter()
    options = {"opt_level": arguments.level, "disabled_pass": arguments.disabled}
    with tvm.transform.PassContext(**options, instruments=[timing]):
        library = relay.build(module, arguments.target)
        passes = timing.render()
    build_s = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        library.get_lib().export_library(str(Path(folder) / "kernels.so"))
        write_s = time.perf_counter() - start
    document = {
        "build_s": build_s,
        "write_s": write_s,
        "passes": pass_seconds(passes),
        "kernels": kernels(library, arguments.device),
    }
    json.dump(document, sys.stdout)


def pass_seconds(report: str) -> dict[str, float]:
    """Return the seconds of each pass of the build's own pipeline, the longest first.

    Passes that another pass runs (type inference above all) count to the outer one. The exception is FoldConstant,
    which compiles the constants it folds: it counts by itself wherever it runs.

    Args:
        report: What ``PassTimingInstrument.render`` returns; tabs show the nesting.
    """
    seconds: Counter[str] = Counter()
    path: list[str] = []
    for parts in filter(None, map(_LINE.match, report.splitlines())):
        depth, name, own_us = len(parts[1]), parts[2], int(parts[3])
        path[depth:] = [name]
        seconds["FoldConstant" if "FoldConstant" in path else path[min(depth, 1)]] += own_us / 1e6
    return {name: round(value, 4) for name, value in seconds.most_common(30)}


def kernels(library: Any, device: str) -> list[dict[str, Any]]:
    """Return the microseconds, the share and the number of calls of every kind of kernel, the longest first."""
    with tempfile.TemporaryDirectory() as folder:
        executor = debug_executor.create(
            library.get_graph_json(), library.get_lib(), tvm.device(device), dump_root=folder
        )
        executor.set_input(**library.get_params())
        rng = np.random.default_rng(0)
        for name in input_names(library):
            index = executor.get_input_index(name)
            array = executor.get_input(index).numpy()
            values = rng.standard_normal(array.shape) if array.dtype.kind == "f" else rng.integers(0, 2, array.shape)
            executor.set_input(name, values.astype(array.dtype))
        rows = executor.run_individual(number=1, repeat=REPEATS)
    times: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    nodes = json.loads(library.get_graph_json())["nodes"]
    for node, row in zip(nodes, rows, strict=True):
        if node["op"] == "tvm_op" and node["attrs"]["func_name"] != "__nop":
            kind = operator(node["attrs"]["func_name"])
            times[kind] += float(np.median(row)) * 1e6 if np.ndim(row) else float(row) * 1e6
            calls[kind] += 1
    total = sum(times.values())
    return [
        {"kernel": kind, "calls": calls[kind], "us": round(value, 1), "share": round(value / total, 4)}
        for kind, value in times.most_common()
    ]


def operator(function: str) -> str:
    """Return the operators of a kernel: ``tvmgen_default_fused_nn_dense_add_3`` becomes ``nn_dense_add``."""
    return re.sub(r"^tvmgen_default_(fused_)?|(_\d+)$", "", function)


def input_names(library: Any) -> list[str]:
    """Return the names of the inputs, without the parameters."""
    graph = json.loads(library.get_graph_json())
    names = [graph["nodes"][index]["name"] for index in graph["arg_nodes"]]
    return [name for name in names if name not in library.get_params()]


if __name__ == "__main__":
    main()
