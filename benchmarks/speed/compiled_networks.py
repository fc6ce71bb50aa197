"""Compiles networks without a search, each from an empty cache, and times the choice beside other sequences.

``python -m benchmarks.speed.compiled_networks FOLDER --engines-python VENV/bin/python`` writes the networks that are
missing into a folder as ONNX. Each is compiled by ``passsearch compile --seconds 60`` as a user does it; then new
processes time the chosen sequence beside three of the catalog's and ONNX Runtime. Networks that are in
``benchmarks/results/compiled_networks.json`` are not measured again; names after the folder choose some. ``--table``
prints Markdown from it.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, options, ratio_text, read_rows, write_row
from benchmarks.search.corpus import network_file
from passsearch.measure import mean_ratio

OUT = RESULTS / "compiled_networks.json"
IMAGES = (
    *("inception_v3", "dla46x_c", "repvgg_a0", "xception41", "hrnet_w18_small", "res2net50_14w_8s", "mixnet_s"),
    *("resnetv2_50", "mobilenetv4_conv_small", "cspresnet50", "fbnetc_100", "skresnet18", "hgnetv2_b0", "densenet121"),
)
TOKENS = (
    "pit_ti_224",
    "swin_tiny_patch4_window7_224",
    "deit_tiny_patch16_224",
    "distilbert_mini",
    "opt_mini",
    "qwen2_mini",
)
SEQUENCES = {
    **dict.fromkeys(IMAGES, ("schedule-cpu", "nhwc-schedule-cpu", "winograd-schedule-cpu")),
    **dict.fromkeys(TOKENS, ("schedule-cpu", "combine-schedule-cpu", "decoder-schedule-cpu")),
}
"""The three sequences that the choice is timed beside, by network."""

ONNXRUNTIME = "onnxruntime"
SECONDS = 60.0


def measure(file: Path, sequences: tuple[str, ...], arguments: Any) -> dict[str, Any]:
    """Return what the command says and takes, and the fastest inference of each process."""
    with TemporaryDirectory(prefix="passsearch-") as scratch:
        words = [sys.executable, "-m", "passsearch", "compile", str(file), "--toolchain", "relax", "--json"]
        words += ["--to", f"{scratch}/deploy", "--seconds", str(SECONDS), "--rivals", ONNXRUNTIME]
        environment = {**os.environ, "XDG_CACHE_HOME": f"{scratch}/cache"}
        begin = time.monotonic()
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - begin
        if done.returncode:
            return {"failure": done.stderr.strip().splitlines()[-1]}
        document = json.loads(done.stdout)
    name = document["pipeline"]["name"]
    document_of_bench = passsearch.bench(
        str(file),
        [f"relax:{each}" for each in dict.fromkeys((name, *sequences))] + [ONNXRUNTIME],
        baseline=ONNXRUNTIME,
        engines_python=arguments.engines_python,
        processes=arguments.processes,
        rounds=arguments.rounds,
    )
    return {
        "wall_s": round(wall_s, 1),
        "seconds": {key: round(value, 1) for key, value in document["seconds"].items()},
        "chosen": name,
        "tried": [each["name"] for each in document["tried"]],
        "over_onnxruntime": document["rivals"].get(ONNXRUNTIME),
        "process_fastest_s": {
            row["engine"].removeprefix("relax:"): row.get("process_fastest_s") or row.get("failure")
            for row in document_of_bench["rows"]
        },
    }


def _ratio(row: Mapping[str, Any], other: str) -> Any:
    """Return the throughput of the choice as a multiple of another engine's; ``None`` without it."""
    own, others = (row["process_fastest_s"].get(name) for name in (row["chosen"], other))
    if not isinstance(own, list) or not isinstance(others, list):
        return None
    return mean_ratio([math.log(slow / fast) for slow, fast in zip(others, own, strict=True)])


def _fastest_other(row: Mapping[str, Any], sequences: tuple[str, ...]) -> str:
    """Return the fastest of the sequences that were built; the choice, where no other one was."""
    times = {name: row["process_fastest_s"].get(name) for name in sequences if name != row["chosen"]}
    known = {name: min(each) for name, each in times.items() if isinstance(each, list)}
    return min(known, key=known.__getitem__, default=row["chosen"])


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Markdown: a line for each network."""
    lines = []
    for name, row in rows.items():
        if "failure" in row:
            lines.append([name, row["failure"], *"–––––"])
            continue
        other = _fastest_other(row, SEQUENCES[name])
        ratios = [ratio_text(ratio and ratio.to_json(), 2) for ratio in (_ratio(row, ONNXRUNTIME), _ratio(row, other))]
        whole_s = row["wall_s"] - row["seconds"].get("rivals", 0.0)
        lines.append([name, row["chosen"], len(row["tried"]), f"{whole_s:.0f}", ratios[0], other, ratios[1]])
    heads = ("network", "chosen", "tried", "seconds", "/ ONNX Runtime", "fastest other", "/ fastest other")
    return markdown(heads, lines)


def main() -> None:
    arguments = options(
        __doc__,
        ("folder", Path),
        ("networks", tuple(SEQUENCES)),
        engines_python=(sys.executable, "interpreter with torch, timm, transformers and onnxruntime"),
        processes=(4, "processes of each engine"),
        rounds=(6, "rounds in each process"),
        out=OUT,
        table=(False, "print Markdown, and measure nothing"),
    )
    rows = read_rows(arguments.out, "networks")
    if arguments.table:
        print(table(rows))
        return
    for name in [name for name in arguments.networks if name not in rows]:
        file = Path(network_file(arguments.folder, name, arguments.engines_python))
        session = network_session(str(file), "relax")
        row = measure(file, SEQUENCES[name], arguments)
        write_row(arguments.out, "networks", name=name, row=row, session=session)
        print(name, json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
