"""What scripts share that time one function under several schedules, in a process of the toolchain's interpreter."""

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

    from passsearch.dialects.relax.lowering import ZERO, lower, target_options
    from passsearch.dialects.relax.schedules import ScheduleCPU

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
    if answer_file := os.environ.get(ANSWER):
        Path(answer_file).write_text(json.dumps(measure()))
        return
    from passsearch.measure import probe
    from passsearch.toolchain import get_toolchain, host_target

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=results)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        toolchain = get_toolchain("relax")
        target = host_target(toolchain)
        with TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"
            own = {"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": str(threads), TARGET: target, ANSWER: str(answer)}
            subprocess.run([str(toolchain.python), script], env={**os.environ, **own}, stdout=sys.stderr, check=True)
            seconds = json.loads(answer.read_text())
        document = {"date": date.today().isoformat(), "device": dict(probe("cpu").device), "target": target}
        options.out.write_text(json.dumps({**document, "threads": threads, "seconds": seconds}, indent=1) + "\n")
    print(table(json.loads(options.out.read_text())))
