"""Mistakes of new users: ``python -m benchmarks.faults.bad_calls --out benchmarks/results/bad_calls.json``.

Each is a call of the command line or of Python, in an empty folder with some wrong files. A refusal has to be one line
of ``LONGEST`` characters at most, without a traceback, and the status of a user's mistake. In Python it is a
``UserError`` that names no option of the command line, unless a whole command at its end has it. Needs the toolchains
``relay`` and ``relax``.
"""

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import passsearch
from benchmarks.common import RESULTS, options, write
from passsearch import cli
from passsearch.errors import PassSearchError

LONGEST = 700
OPTION, COMMAND = "--", "See: passsearch "
TINY = "zoo:resnet_tiny"

COMMANDS = f"""
tune
tune nothing.onnx
tune bert-base-uncased
tune google/vit-base-patch16-224
tune resnet18
tune zoo:resnet19
tune zoo:resnet18@big
tune pointer.onnx
tune page.onnx
tune pointer.pt
tune empty.onnx
tune weights.safetensors
tune notes.txt
tune folder
tune {TINY} --toolchain rellax
tune {TINY} --objective speed
tune {TINY} --objective latency,memory,power
tune {TINY} --trials -1
tune {TINY} --trials many
tune {TINY} --timeout -5
tune {TINY} --timeout 1h
tune {TINY} --memory 9999
tune {TINY} --batch 0
tune {TINY} --input data=float32
tune {TINY} --input nothing:float32[1,3]
tune {TINY} --samples nothing.npz
tune {TINY} --samples wrong.npz --toolchain relax
tune {TINY} --passes FastMath --toolchain relax
tune {TINY} --passes FuzeOps --toolchain relax
tune {TINY} --catalog tab.yaml --toolchain relax
tune {TINY} --catalog nothing.yaml --toolchain relax
tune {TINY} --sampler bayes --toolchain relax
tune {TINY} --out notes.txt --toolchain relax
tune {TINY} --target quantum --toolchain relax
analyze {TINY} --nonsense
compare {TINY}
compare {TINY} --pipelines O7 --toolchain relax
compare {TINY} --pipeline SimplifyInference,FuseOps --toolchain relax
bench {TINY} --engines tensorflow2
audit nowhere
audit folder
export nowhere --to there
report nowhere
catalog show FoldConst
batch submit tab.yaml
batch submit nothing.yaml
batch submit jobs.yaml
toolchain install nonsense
toolchain remove nonsense
runs clean --older-than yesterday
""".strip().splitlines()

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
    ("compare(zoo, ['O99'])", lambda: passsearch.compare(TINY, ["O99"])),
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
    try:
        call()
    except PassSearchError as error:
        text = str(error)
        is_good = OPTION not in text.partition(COMMAND)[0] and "\n" not in text and len(text) <= LONGEST
        return {"call": f"passsearch.{name}", "status": type(error).__name__, "text": text, "good": is_good}
    except Exception as error:  # noqa: BLE001 -- it is what is looked for
        return {"call": f"passsearch.{name}", "status": type(error).__name__, "text": str(error), "good": False}
    return {"call": f"passsearch.{name}", "status": "no error", "text": "", "good": False}


def main() -> int:
    """Make all calls; the status is the number of answers that are not one clear line."""
    arguments = options(__doc__, out=RESULTS / "bad_calls.json")
    here, rows = Path.cwd(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_files()
        for answer in [*map(run_command, COMMANDS), *(run_call(*each) for each in CALLS)]:
            rows.append({**answer, "text": answer["text"].replace(folder, "/folder")})
            print(f"{'ok ' if answer['good'] else 'BAD'} {answer['call']}\n    {answer['text']}", flush=True)
        os.chdir(here)
    write(arguments.out, rows)
    bad = sum(not row["good"] for row in rows)
    print(f"{len(rows)} calls, {bad} without one clear line")
    return bad


if __name__ == "__main__":
    raise SystemExit(main())
