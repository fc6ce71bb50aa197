"""Times one token of a decoder with weights in few bits beside llama.cpp with the same weights.

``python -m benchmarks.speed.decoders --llama-python VENV/bin/python`` with an environment that has ``llama-cpp-python``
and ``gguf``. All engines read the same prompt, and decode its last token in turns in several processes; the scores of
the next token are compared with ONNX Runtime's in float32. ``--table`` prints Markdown from
``benchmarks/results/decoders.json``, or from the file that ``--out`` names; ``--network`` is that of the zoo.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import numpy_helper

import passsearch
from benchmarks.common import RESULTS, markdown, network_session, note, options, provenance, ratio_text, read, write
from passsearch.frontends.zoo.llama import llama
from passsearch.frontends.zoo.networks import LARGE_LLAMA
from passsearch.measure import mean_ratio

OUT, PROGRAM = RESULTS / "decoders.json", Path(__file__).with_name("gguf_decoder.py")
TOKENS, THREADS = 128, "2"
NETWORKS: Mapping[str, Mapping[str, int]] = {
    "llama_decode": {"heads": 12, "key_heads": 4},
    "llama_large_decode": LARGE_LLAMA,
}
"""Sizes of the zoo's decoders; all others are the defaults of its function."""
SEQUENCES = {
    "float32": "decoder-schedule-cpu",
    "int8": "narrow-int8-schedule-cpu",
    "int8, int8 activations": "narrow-int8-activations-schedule-cpu",
    "int4": "narrow-int4-schedule-cpu",
    "int4, int8 activations": "narrow-int4-activations-schedule-cpu",
}
TYPES = {"llama.cpp F32": "F32", "llama.cpp Q8_0": "Q8_0", "llama.cpp Q4_0": "Q4_0"}
_SAME_BITS = {
    "F32": ("float32",),
    "Q8_0": ("int8", "int8, int8 activations"),
    "Q4_0": ("int4", "int4, int8 activations"),
}
RIVALS = {name: f"llama.cpp {kind}" for kind, names in _SAME_BITS.items() for name in names}


def prepare(folder: Path, arguments: argparse.Namespace) -> tuple[dict[str, list[str]], Any]:
    """Write prompt, deployments and GGUF files; return the command that serves each engine, and the expected scores."""
    expected = _write_prompt(folder, NETWORKS[arguments.network])
    commands = {}
    for name, sequence in SEQUENCES.items():
        note(f"compiling {sequence}")
        to = folder / name
        # All outputs are admitted: their deviation is what is to be stated.
        passsearch.compile(
            f"zoo:{arguments.network}", pipeline=sequence, rivals=(), toolchain="relax", tolerance=2.0, to=to
        )
        commands[name] = [json.loads((to / "compilation.json").read_text())["python"], str(PROGRAM), "serve", str(to)]
    heads = [str(NETWORKS[arguments.network][name]) for name in ("heads", "key_heads")]
    for name, kind in TYPES.items():
        file, python = folder / f"{kind}.gguf", arguments.llama_python
        subprocess.run([python, PROGRAM, "write", folder / "weights.npz", kind, file, *heads], check=True)
        commands[name] = [python, str(PROGRAM), "serve", str(file)]
    return commands, expected


def _write_prompt(folder: Path, sizes: Mapping[str, int]) -> Any:
    """Write the weights, and the prompt with the keys and values of all tokens but the last; return its scores."""
    tokens = np.random.default_rng(0).integers(0, 32000, TOKENS)
    network = llama(sequence=TOKENS - 1, **sizes)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    names = [each.name for each in session.get_outputs()]
    state = dict(zip(names, session.run(names, {"input_ids": tokens[None, :-1]}), strict=True))
    past = {f"past_{name}": array for name, array in state.items() if name != "logits"}
    np.savez(folder / "prompt.npz", tokens=tokens, **past)
    weights = {each.name: numpy_helper.to_array(each) for each in network.graph.initializer}
    np.savez(folder / "weights.npz", **{name: each for name, each in weights.items() if each.ndim > 0})
    del session, network, weights  # up to 2 GB each
    whole = onnxruntime.InferenceSession(llama(sequence=TOKENS, **sizes).SerializeToString())
    return whole.run(["logits"], {"input_ids": tokens[None]})[0].ravel()


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest and the median run of each engine in each process, and how far its scores deviate."""
    commands, expected = prepare(folder, arguments)
    times: dict[str, dict[str, list[float]]] = {name: {"fastest_s": [], "median_s": []} for name in commands}
    for process in range(arguments.processes):
        note("process", process + 1, arguments.processes)
        with ExitStack() as stack:
            servers = {name: stack.enter_context(_server(command, folder)) for name, command in commands.items()}
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
            for server in servers.values():
                _answer(server)
            for _ in range(arguments.rounds):
                for name in random.sample([*servers], len(servers)):
                    rounds[name].append(_answer(servers[name], arguments.seconds))
        for name, answers in rounds.items():
            for kind, found in times[name].items():
                found.append(min(each[kind] for each in answers))
    scores = {name: np.load(f"{command[-1]}.npy") for name, command in commands.items()}
    largest = float(np.abs(expected).max())
    deviations = {name: float(np.abs(own - expected).max()) / largest for name, own in scores.items()}
    return {
        **provenance(network_session(f"zoo:{arguments.network}", "relax")),
        "deviation": deviations,
        "process_s": times,
        "ratios": {name: _ratio(times[name], times[rival]) for name, rival in RIVALS.items()},
        "gains": {name: _ratio(times[name], times["float32"]) for name in RIVALS if name != "float32"},
    }


def _ratio(own: Mapping[str, list[float]], other: Mapping[str, list[float]]) -> dict[str, Any]:
    logs = [math.log(slow / fast) for fast, slow in zip(own["fastest_s"], other["fastest_s"], strict=True)]
    ratio = mean_ratio(logs)
    return {"ratio": ratio.value, "interval": [ratio.interval.low, ratio.interval.high]}


class _server(subprocess.Popen[str]):  # noqa: N801 -- used as a context
    def __init__(self, command: list[str], folder: Path) -> None:
        words = [*command, str(folder / "prompt.npz"), THREADS]
        super().__init__(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()


def _answer(server: subprocess.Popen[str], seconds: float | None = None) -> dict[str, float]:
    assert server.stdin is not None and server.stdout is not None
    if seconds is not None:
        print(seconds, file=server.stdin, flush=True)
    return dict(json.loads(server.stdout.readline()))


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: a line for each engine."""
    rows = []
    for name, times in document["process_s"].items():
        fastest, median = (1e3 * min(times[kind]) for kind in ("fastest_s", "median_s"))
        beside = ratio_text(document["ratios"].get(name))
        rows.append([name, f"{fastest:.2f}", f"{median:.2f}", ratio_text(document["gains"].get(name)), beside,
                     f"{document['deviation'][name]:.1e}"])  # fmt: skip
    return markdown(("engine", "fastest, ms", "median, ms", "/ float32", "/ llama.cpp", "largest deviation"), rows)


def main() -> None:
    arguments = options(
        __doc__,
        llama_python=(sys.executable, "interpreter with llama-cpp-python and gguf"),
        network=("llama_decode", f"one of {', '.join(NETWORKS)}"),
        processes=5,
        rounds=3,
        seconds=0.5,
        out=OUT,
        table=(False, "print Markdown, and measure nothing"),
    )
    if not arguments.table:
        with tempfile.TemporaryDirectory(prefix="passsearch-") as folder:
            write(Path(arguments.out), measure(Path(folder), arguments))
    print(table(read(Path(arguments.out))))


if __name__ == "__main__":
    main()
