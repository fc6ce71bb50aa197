"""What benchmarks share: command lines, rows of JSON with their origin, Markdown, pages, processes and ONNX files."""

import argparse
import fcntl
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from passsearch.evaluate import Session, open_session
from passsearch.frontends import resolve
from passsearch.measure import Ratio, mean_ratio
from passsearch.search.document import compiler_of
from passsearch.toolchain import cache_folder

ROOT = Path(__file__).parents[1]
RESULTS, RUNS, EVIDENCE = ROOT / "benchmarks" / "results", ROOT / "runs", ROOT / "docs" / "evidence"

FIRST = 30
"""Priority of timed processes among those of real time."""


def options(
    doc: str | None, *positional: tuple[str, Any], argv: Sequence[str] | None = None, **named: Any
) -> argparse.Namespace:
    """Read the command line.

    Args:
        doc: Docstring of the script; its first line is the description.
        positional: Names with a type (required), a tuple (any number, this one by default) or a default.
        argv: The words; those of the process by default.
        named: Defaults of options, by name; ``False`` is a flag. A pair is a default and what the option is.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    for name, value in positional:
        if isinstance(value, type):
            parser.add_argument(name, type=value)
        elif isinstance(value, tuple):
            parser.add_argument(name, nargs="*", default=value, metavar=name.upper(), help="(%(default)s)")
        else:
            parser.add_argument(name, nargs="?", type=type(value), default=value, help="(%(default)s)")
    for name, value in named.items():
        default, text = value if isinstance(value, tuple) else (value, "")
        flag = f"--{name.replace('_', '-')}"
        if default is False:
            parser.add_argument(flag, action="store_true", help=text)
        elif isinstance(default, type):
            parser.add_argument(flag, type=default, help=text)
        else:
            parser.add_argument(flag, type=type(default), default=default, help=f"{text} (%(default)s)")
    return parser.parse_args(argv)


def network_session(model: str, toolchain: str | None = None) -> Session:
    """Return the session of a network without an evaluator, with the toolchain and target that ``tune`` chooses."""
    return open_session(resolve(model, folder=cache_folder() / "models"), toolchain=toolchain, target=None)


def provenance(session: Session) -> dict[str, Any]:
    """Return date, machine, target and compiler."""
    machine = {"device": session.sensors.device, "target": session.target, "toolchain": compiler_of(session).to_json()}
    return {"date": today(), **machine}


def today() -> str:
    return date.today().isoformat()


def read(file: Path) -> dict[str, Any]:
    """Return a document; an empty one if there is no file yet."""
    return dict(json.loads(file.read_text())) if file.exists() else {}


def write(file: Path, document: Any) -> None:
    """Write a document, so that the file is complete at every moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(file)


def read_rows(file: Path, section: str) -> dict[str, Any]:
    """Return the rows of a results file, by network or space; empty if there is no file yet."""
    return dict(read(file).get(section, {}))


def write_row(file: Path, section: str, *, name: str, row: dict[str, Any], session: Session) -> None:
    """Add a row, with its provenance, to a results file, or replace the row of this name; all other rows stay."""
    write(file, {section: {**read_rows(file, section), name: {**provenance(session), **row}}})


def write_part(page: str, script: str, text: str) -> None:
    """Write what a benchmark says into a page of evidence, between the two marks that name the benchmark."""
    path = EVIDENCE / page
    begin, end = (f"<!-- {mark}: benchmarks/{script} -->" for mark in ("begin", "end"))
    before, _, rest = path.read_text().partition(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


def engine_rows(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what is kept of the engines of a document of ``bench``, by name."""
    kept = ("failure", "fastest_s", "compile_s", "deviation", "process_fastest_s")
    return {row["engine"]: {key: row[key] for key in kept if key in row} for row in document["rows"]}


def throughput(own: Mapping[str, Any], other: Mapping[str, Any]) -> Ratio:
    """Return the throughput of an engine as a multiple of another one's, over processes; both rows of ``bench``."""
    pairs = zip(other["process_fastest_s"], own["process_fastest_s"], strict=True)
    return mean_ratio([math.log(slow / fast) for slow, fast in pairs])


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; nothing without rows."""
    lines = [f"| {' | '.join(map(str, line))} |" for line in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]]) if lines[1:] else ""


def ratio_text(ratio: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Return a ratio with its interval, such as ``1.02 [1.00, 1.04]``."""
    if not ratio:
        return "–"
    low, high = ratio.get("interval") or (None, None)
    ends = "" if low is None or high is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{ratio.get('ratio', ratio.get('value')):.{digits}f}{ends}"


@contextmanager
def first_in_line(*others: int) -> Iterator[None]:
    """Run the threads of this process, and what they start, before all others of the machine, where that is allowed.

    One process at a time does so.

    Args:
        others: Further processes, by id.
    """
    with one_at_a_time("first-in-line"):
        _schedule(os.SCHED_FIFO, FIRST, others)
        try:
            yield
        finally:
            _schedule(os.SCHED_OTHER, 0, others)


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Wait until no other process of this user holds the lock of a name, and hold it."""
    with (Path(tempfile.gettempdir()) / f"passsearch-benchmark-{name}-{os.getuid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _schedule(policy: int, priority: int, others: Sequence[int]) -> None:
    for process in ("self", *others):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(PermissionError, ProcessLookupError):  # it may have ended meanwhile
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))


def note(text: str, done: int = 0, total: int = 0) -> None:
    """Print a line of progress."""
    print(f"{text} {done}/{total}" if total else text, file=sys.stderr, flush=True)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep other processes busy until the block is left."""
    with ExitStack() as stack:
        for _ in range(processes):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"]))
            stack.callback(process.kill)
        yield


def in_own_process(work: Callable[..., None], *arguments: Any, timeout_s: float) -> str:
    """Run a function in a fork, which has what this process imported; return why it ended before its end, or nothing.

    A process that takes too long is ended with its children.
    """

    def lead() -> None:
        os.setsid()
        work(*arguments)

    process = multiprocessing.get_context("fork").Process(target=lead)
    process.start()
    process.join(timeout_s)
    if process.is_alive():
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        return f"no answer within {timeout_s:g} s"
    return f"the process ended with {process.exitcode}" if process.exitcode else ""


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Mapping[str, Sequence[int] | None],
    weights: Mapping[str, Any],
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a network with float32 outputs; inputs are pairs of dtype and shape."""

    def value(name: str, dtype: str, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    graph = helper.make_graph(
        nodes,
        "network",
        [value(name, *kind) for name, kind in inputs.items()],
        [value(name, "float32", shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
