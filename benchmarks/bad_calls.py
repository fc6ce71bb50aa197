"""Mistakes of new users: ``python benchmarks/bad_calls.py --out benchmarks/results/bad_calls.json``.

Each is a call of the command line or of Python, in an empty folder with some wrong files. A refusal has to be one line
of ``LONGEST`` characters at most, without a traceback, and the status of a user's mistake. In Python it is a
``UserError`` that names no option of the command line. Needs the toolchains ``relay`` and ``relax``.
"""

import argparse
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import passsearch
from passsearch import cli
from passsearch.core import ON_COMMAND_LINE
from passsearch.errors import PassSearchError

LONGEST = 700
OPTION = "--"
TINY = "zoo:resnet_tiny"

COMMANDS = (
    "tune",
    "tune nothing.onnx",
    "tune bert-base-uncased",
    "tune google/vit-base-patch16-224",
    "tune resnet18",
    "tune zoo:resnet19",
    "tune zoo:resnet18@big",
    "tune pointer.onnx",
    "tune page.onnx",
    "tune pointer.pt",
    "tune empty.onnx",
    "tune weights.safetensors",
    "tune notes.txt",
    "tune folder",
    f"tune {TINY} --toolchain rellax",
    f"tune {TINY} --objective speed",
    f"tune {TINY} --objective latency,memory,power",
    f"tune {TINY} --trials -1",
    f"tune {TINY} --trials many",
    f"tune {TINY} --timeout -5",
    f"tune {TINY} --timeout 1h",
    f"tune {TINY} --memory 9999",
    f"tune {TINY} --batch 0",
    f"tune {TINY} --input data=float32",
    f"tune {TINY} --input nothing:float32[1,3]",
    f"tune {TINY} --samples nothing.npz",
    f"tune {TINY} --samples wrong.npz --toolchain relax",
    f"tune {TINY} --passes FastMath --toolchain relax",
    f"tune {TINY} --passes FuzeOps --toolchain relax",
    f"tune {TINY} --catalog tab.yaml --toolchain relax",
    f"tune {TINY} --catalog nothing.yaml --toolchain relax",
    f"tune {TINY} --sampler bayes --toolchain relax",
    f"tune {TINY} --out notes.txt --toolchain relax",
    f"tune {TINY} --target quantum --toolchain relax",
    f"analyze {TINY} --nonsense",
    f"compare {TINY}",
    f"compare {TINY} --pipelines O7 --toolchain relax",
    f"compare {TINY} --pipeline SimplifyInference,FuseOps --toolchain relax",
    f"bench {TINY} --engines tensorflow2",
    "audit nowhere",
    "audit folder",
    "export nowhere --to there",
    "report nowhere",
    "catalog show FoldConst",
    "batch submit tab.yaml",
    "batch submit nothing.yaml",
    "batch submit jobs.yaml",
    "toolchain install nonsense",
    "toolchain remove nonsense",
    "runs clean --older-than yesterday",
)

CALLS: tuple[tuple[str, Callable[[], object]], ...] = (
    ("tune('nothing.onnx')", lambda: passsearch.tune("nothing.onnx")),
    ("tune(42)", lambda: passsearch.tune(42)),
    ("tune(np.zeros(3))", lambda: passsearch.tune(np.zeros(3))),
    ("tune(zoo, trial=3)", lambda: passsearch.tune(TINY, trial=3)),  # type: ignore[call-arg]
    ("tune(zoo, trials='3')", lambda: passsearch.tune(TINY, trials="3")),  # type: ignore[arg-type]
    ("tune(zoo, objective='speed')", lambda: passsearch.tune(TINY, objective="speed", toolchain="relax")),
    ("tune(zoo, memory=9999)", lambda: passsearch.tune(TINY, memory=9999, toolchain="relax")),
    ("tune(zoo, inputs={...})", lambda: passsearch.tune(TINY, inputs={"x": "float[1]"}, toolchain="relax")),
    ("tune(zoo, passes=[])", lambda: passsearch.tune(TINY, passes=[], toolchain="relax")),
    ("tune(zoo, out=file)", lambda: passsearch.tune(TINY, out="notes.txt", toolchain="relax")),
    ("compare(zoo, [])", lambda: passsearch.compare(TINY, [])),
    ("audit('nowhere')", lambda: passsearch.audit("nowhere")),
    ("analyze('page.onnx')", lambda: passsearch.analyze("page.onnx")),
    ("load_pipeline('nowhere')", lambda: passsearch.load_pipeline("nowhere")),
    ("catalog_entry('FuzeOps')", lambda: passsearch.catalog_entry("FuzeOps")),
)


def write_files() -> None:
    """Write the wrong files into the present folder."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    texts = {
        "pointer.onnx": pointer,
        "pointer.pt": pointer,
        "page.onnx": "<!DOCTYPE html><html></html>",
        "empty.onnx": "",
        "weights.safetensors": "x",
        "notes.txt": "notes",
        "tab.yaml": "jobs:\n\t- model: x\n",
        "jobs.yaml": "job: 3\n",
    }
    for name, text in texts.items():
        Path(name).write_text(text)
    Path("folder").mkdir()
    np.savez("wrong.npz", nothing=np.zeros(3))


def run_command(command: str) -> dict[str, Any]:
    """Return the answer of one command."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = cli.main(command.split())
    # Notes such as "reading the network" come before the refusal.
    lines = errors.getvalue().strip().splitlines()
    refusal = [line for line in lines if line.startswith("error: ")]
    is_good = status in (2, 3) and len(refusal) == 1 and lines[-1] == refusal[0] and len(refusal[0]) <= LONGEST
    return {"call": f"passsearch {command}", "status": status, "text": "\n".join(refusal or lines), "good": is_good}


def run_call(name: str, call: Callable[[], object]) -> dict[str, Any]:
    """Return the answer of one call in Python."""
    ON_COMMAND_LINE.set(False)
    try:
        call()
    except PassSearchError as error:
        text = str(error)
        is_good = OPTION not in text and "\n" not in text and len(text) <= LONGEST
        return {"call": f"passsearch.{name}", "status": type(error).__name__, "text": text, "good": is_good}
    except Exception as error:  # noqa: BLE001 -- it is what is looked for
        return {"call": f"passsearch.{name}", "status": type(error).__name__, "text": str(error), "good": False}
    return {"call": f"passsearch.{name}", "status": "no error", "text": "", "good": False}


def show(row: dict[str, Any]) -> dict[str, Any]:
    """Print a row, and return it."""
    print(f"{'ok ' if row['good'] else 'BAD'} {row['call']}\n    {row['text']}", flush=True)
    return row


def main() -> int:
    """Make all calls; the status is the number of answers that are not one clear line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files()
        rows = [show(run_command(command)) for command in COMMANDS]
        rows += [show(run_call(name, call)) for name, call in CALLS]
        os.chdir(here)
    if out:
        text = json.dumps(rows, indent=1).replace(folder, "/folder")
        out.write_text(text + "\n")
    bad = sum(not row["good"] for row in rows)
    print(f"{len(rows)} calls, {bad} without one clear line")
    return bad


if __name__ == "__main__":
    raise SystemExit(main())
