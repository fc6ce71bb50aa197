"""Compares ``torch.compile(module, backend="passsearch")`` with eager mode and Inductor.

``VENV/bin/python -m benchmarks.speed.torch_backend`` with an environment that has ``torch``, ``timm``, ``transformers``
and TVM. Each module runs in a process of its own, and the outputs of each engine are compared with eager mode. Modules
that are in ``benchmarks/results/torch_backend.json``, or in the file that ``--out`` names, are not measured again;
names choose some. ``--table`` prints Markdown from the file.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.common import RESULTS, ROOT, first_in_line, markdown, note, options, ratio_text, read_rows, today, write
from benchmarks.speed import network_files
from passsearch.measure import mean_ratio

BREAKING = ("branch", "logged", "scaled", "nested", "early_exit", "sorted")
"""Names in ``graph_breaks``, which needs PyTorch."""

EAGER, INDUCTOR, OWN = "eager", "inductor", "passsearch"
SECONDS = 0.3
"""Time of the timed calls of one engine in one round."""

LIMIT_S = 3600.0
"""Time after which a module is given up."""


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Return outputs, compile times and times of one module by each engine."""
    import torch
    import tvm

    from benchmarks.speed import graph_breaks

    module, inputs = (graph_breaks if name in BREAKING else network_files).module_of(name)
    with torch.no_grad():
        expected = _tensors(module(inputs))
        engines, row = {EAGER: module}, {"versions": {"torch": torch.__version__, "tvm": tvm.__version__}}
        for engine in (INDUCTOR, OWN):
            torch._dynamo.reset()
            row[engine], function = _compiled(module, inputs, engine, expected)
            if function is not None:
                engines[engine] = function
        with first_in_line():
            row["rounds"] = [_round(engines, inputs, turn) for turn in range(rounds)]
    return {"threads": torch.get_num_threads(), **row}


def _compiled(module: Any, inputs: Any, engine: str, expected: list[Any]) -> tuple[dict[str, Any], Any]:
    """Return how an engine compiled a module, and the function; ``None`` where it fails or is wrong."""
    import torch

    function = torch.compile(module, backend=engine)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outputs = _tensors(function(inputs))
        except Exception as error:  # noqa: BLE001 - whatever an engine raises is its result
            return {"failure": str(error).strip().splitlines()[0][:300]}, None
    compile_s = time.perf_counter() - start
    told = [str(each.message) for each in caught if str(each.message).startswith("passsearch leaves")]
    deviation = max(map(_deviation, outputs, expected)) if len(outputs) == len(expected) else math.inf
    # A compiled graph may be another one at the second call.
    again = max(map(_deviation, _tensors(function(inputs)), expected))
    row = {"compile_s": compile_s, "deviation": max(deviation, again), "eager_parts": told}
    return row, function if max(deviation, again) < 1e-2 else None


def _round(engines: Mapping[str, Callable[[Any], Any]], inputs: Any, turn: int) -> dict[str, float]:
    """Return the fastest call of each engine; the order changes from round to round."""
    names = [*engines]
    order = names[turn % len(names) :] + names[: turn % len(names)]
    return {name: _fastest_s(engines[name], inputs) for name in order}


def _fastest_s(function: Callable[[Any], Any], inputs: Any) -> float:
    function(inputs)  # threads of the engine before go to sleep meanwhile
    fastest, end = math.inf, time.perf_counter() + SECONDS
    while True:
        start = time.perf_counter()
        function(inputs)
        now = time.perf_counter()
        fastest = min(fastest, now - start)
        if now > end:
            return fastest


def _tensors(outputs: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [each.clone() for each in tree_leaves(outputs) if isinstance(each, torch.Tensor)]


def _deviation(output: Any, expected: Any) -> float:
    """Return the largest deviation as a share of the largest magnitude; infinite for another type or shape."""
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return math.inf
    difference = float((output.double() - expected.double()).abs().max())
    return difference / max(float(expected.double().abs().max()), 1e-30)


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each module."""
    lines = []
    for name, row in rows.items():
        ratios = [ratio_text(_ratio(row, other), 3) for other in (EAGER, INDUCTOR)]
        own, inductor = (row.get(engine, {}) for engine in (OWN, INDUCTOR))
        failed = own.get("failure") or row.get("failure")
        times = [f"{engine['compile_s']:.0f}" if "compile_s" in engine else "–" for engine in (own, inductor)]
        outcome = failed or f"{own['deviation']:.1e}"
        lines.append([name, outcome, len(own.get("eager_parts", ())), *ratios, *times])
    heads = ("module", "deviation", "eager parts", "/ eager", "/ Inductor", "compile, s", "Inductor, s")
    return markdown(heads, lines)


def _ratio(row: Mapping[str, Any], other: str) -> dict[str, Any] | None:
    """Return the backend's throughput as a multiple of another engine's."""
    logs = [math.log(each[other] / each[OWN]) for each in row.get("rounds", ()) if {other, OWN} <= each.keys()]
    return mean_ratio(logs).to_json() if logs else None


def _in_own_process(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.speed.torch_backend", name, "--one", "--rounds", str(arguments.rounds)]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": f"no answer within {LIMIT_S:g} s"}
    if done.returncode:
        return {"failure": f"the process ended with {done.returncode}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    arguments = options(
        __doc__,
        ("modules", (*network_files.TIMM, *network_files.TRANSFORMERS, *BREAKING)),
        rounds=(5, "paired rounds"),
        out=RESULTS / "torch_backend.json",
        one=(False, "measure this module here, and print its row"),
        table=(False, "print Markdown, and measure nothing"),
    )
    if arguments.one:
        print(json.dumps(measure(arguments.modules[0], arguments.rounds)))
        return
    rows = read_rows(arguments.out, "modules")
    if arguments.table:
        print(table(rows))
        return
    for name in [name for name in arguments.modules if name not in rows]:
        note(name)
        rows[name] = {"date": today(), "processors": os.cpu_count(), **_in_own_process(name, arguments)}
        write(arguments.out, {"modules": rows})


if __name__ == "__main__":
    main()
