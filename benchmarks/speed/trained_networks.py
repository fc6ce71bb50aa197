"""Compiles small trained networks in fewer bits under budgets of accuracy, and judges them by images not seen before.

``python -m benchmarks.speed.trained_networks FOLDER --engines-python VENV/bin/python`` trains the networks that are
missing in a folder; VENV has PyTorch and scikit-learn. ``passsearch compile`` decides by half of the images that no
network was trained on; the other half gives the accuracy, beside that of ONNX Runtime in float32. Decisions that are in
``benchmarks/results/trained_networks.json`` are not made again; names after the folder choose networks. ``--table``
prints Markdown.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, options, ratio_text, read_rows, write_row
from passsearch.results import Compilation

NETWORKS = ("products", "convolutions", "encoder")
BUDGETS = ("accuracy:0", "accuracy:0.01", "accuracy:0.05")
OUT = RESULTS / "trained_networks.json"

RUN = """
import sys, numpy
sys.path.insert(0, sys.argv[1])
from run_model import load
run, images = load(sys.argv[1] + "/built"), numpy.load(sys.argv[2])["x"]
numpy.save(sys.argv[3], numpy.concatenate([run(image)[0] for image in images]))
"""
"""Runs a deployment on the images of a file and writes the scores."""


def measure(file: Path, budget: str) -> dict[str, Any]:
    """Return what was decided within a budget, and the shares of the test's images that are classified right."""
    folder = file.parent
    with np.load(folder / "test.npz") as test:
        images, labels = test["x"], test["labels"]
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    before = np.concatenate([session.run(None, {"x": image})[0] for image in images])
    with TemporaryDirectory() as name:
        deployment, scores = Path(name, "deploy"), Path(name, "scores.npy")
        compiled = passsearch.compile(
            file,
            to=deployment,
            precision="mixed",
            budget=budget,
            samples=folder / "samples.npz",
            labels=folder / "samples.npz",
            rivals=["onnxruntime"],
            toolchain="relax",
        )
        document = Compilation.from_json(compiled)
        command = [document.python, "-c", RUN, str(deployment), str(folder / "test.npz"), str(scores)]
        subprocess.run(command, check=True)
        after = np.load(scores)
        files = sum(each.stat().st_size for each in (deployment / "built").rglob("*") if each.is_file())
    decision, rival = document.narrow, document.measured_rivals.get("onnxruntime")
    return {
        "layers": dict(Counter(each.text for each in decision.layers)) if decision else {"float32": 0},
        "loss": decision.loss if decision else 0.0,
        "float32_accuracy": float((before.argmax(-1) == labels).mean()),
        "accuracy": float((after.argmax(-1) == labels).mean()),
        "other_class": float((before.argmax(-1) != after.argmax(-1)).mean()),
        "gain": decision.gain if decision else None,
        "over_onnxruntime": rival and rival.ratio.to_json(),
        "built_bytes": files,
    }


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown."""
    heads = ("network, budget", "layers", "right, float32", "right", "another class", "/ float32", "/ ONNX Runtime")
    lines = [
        [
            *(name, ", ".join(f"{number} {text}" if number else text for text, number in row["layers"].items())),
            *(f"{100 * row[key]:.1f} %" for key in ("float32_accuracy", "accuracy", "other_class")),
            *("–" if row["gain"] is None else f"{row['gain']:.2f}", ratio_text(row["over_onnxruntime"])),
        ]
        for name, row in rows.items()
    ]
    return markdown(heads, lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("folder", Path("runs/digits")),
        ("networks", NETWORKS),
        engines_python=Path(sys.executable),
        table=(False, "print Markdown, and measure nothing"),
    )
    folder = arguments.folder
    if not arguments.table and not all((folder / f"{name}.onnx").exists() for name in NETWORKS):
        folder.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("trained_digits.py")
        subprocess.run([str(arguments.engines_python), str(script), str(folder)], check=True)
    known = read_rows(OUT, "networks")
    for name in () if arguments.table else arguments.networks:
        for budget in BUDGETS:
            if (key := f"{name}, {budget}") not in known:
                file = folder / f"{name}.onnx"
                write_row(
                    OUT, "networks", name=key, row=measure(file, budget), session=network_session(str(file), "relax")
                )
    print(table(read_rows(OUT, "networks")))


if __name__ == "__main__":
    main()
