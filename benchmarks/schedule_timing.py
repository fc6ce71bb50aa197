"""What scripts share that time one function by several schedules or versions, in processes of the toolchain."""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET, ANSWER = "PASSSEARCH_TIMING_TARGET", "PASSSEARCH_TIMING_ANSWER"
"""Variables of the process: TVM's target, and the file for what it measured. TVM prints to standard output."""


def timed(shape: Sequence[int], body: Callable[[Any, Any], Any], **settings: Any) -> Callable[[], object]:
    """Return a function that runs a network of one input, scheduled by ``ScheduleCPU``, once.

    Args:
        shape: Shape of the input, in float32.
        body: Returns the output from Relax's block builder and the input.
        settings: Arguments of ``ScheduleCPU``.
    """
    import numpy as np
    import tvm
    from tvm import relax
    from tvm.relax import transform

    from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
    from passsearch.standalone.relax.deployment.lowering import ZERO, lower, target_options

    builder, data = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            output = builder.emit_output(body(builder, data))
        builder.emit_func_output(output)
    target = tvm.target.Target(target_options(os.environ[TARGET]))
    with target:
        scheduled = tvm.transform.Sequential([transform.LegalizeOps(), ScheduleCPU(**settings)])(builder.get())
        module = lower(scheduled, level=ZERO, target=target)
        machine = relax.VirtualMachine(relax.build(module, target, relax_pipeline=None), tvm.cpu())
    value = np.random.default_rng(0).standard_normal(shape, dtype="float32")
    machine.save_function("main", "timed", tvm.runtime.tensor(value), include_return=False)
    return machine["timed"]  # type: ignore[no-any-return]


def fastest(runs: Mapping[str, Callable[[], object]], *, turns: int) -> dict[str, float]:
    """Return the fastest seconds of each function; they take turns, and each runs once before it is timed."""
    seconds = dict.fromkeys(runs, math.inf)
    for _ in range(turns):
        for name, run in runs.items():
            run()  # the data of the function before are in the caches
            begin = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return seconds


def main(
    script: str,
    description: str,
    measure: Callable[[], Mapping[str, Any]],
    table: Callable[[Mapping[str, Any]], str],
    *,
    results: Path,
    threads: int,
) -> None:
    """Run the script again by the toolchain's interpreter, write what ``measure`` returns, and print the table."""
    if os.environ.get(ANSWER):
        answer(measure)
        return
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=results)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        seconds = run_by_toolchain(script, ROOT, threads=threads)
        write(options.out, {"threads": threads, "seconds": seconds})
    print(table(read(options.out)))


def answer(measure: Callable[[], Mapping[str, Any]]) -> None:
    """Write what ``measure`` returns to the file that the variable ``ANSWER`` names."""
    Path(os.environ[ANSWER]).write_text(json.dumps(measure()))


def run_by_toolchain(script: str, tree: Path, *, threads: int) -> Any:
    """Run a script by the toolchain's interpreter, with the passsearch of a checkout, and return its answer."""
    from passsearch.toolchain import get_toolchain

    with TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        own = {"PYTHONPATH": str(tree), "TVM_NUM_THREADS": str(threads), TARGET: _target(), ANSWER: str(file)}
        python = str(get_toolchain("relax").python)
        subprocess.run([python, script], env={**os.environ, **own}, stdout=sys.stderr, check=True)
        return json.loads(file.read_text())


def _target() -> str:
    from passsearch.toolchain import get_toolchain, host_target

    return host_target(get_toolchain("relax"))


def commit_of(tree: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def write(file: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document with the date, this machine and TVM's target."""
    from passsearch.measure import probe

    machine = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "target": _target()}
    file.write_text(json.dumps({**machine, **document}, indent=1) + "\n")


def read(file: Path) -> Any:
    """Return a JSON document."""
    return json.loads(file.read_text())
