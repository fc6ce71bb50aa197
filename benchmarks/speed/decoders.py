"""Times one token of a decoder with weights in few bits beside other engines with the same weights in as many.

``python -m benchmarks.speed.decoders --llama-python VENV/bin/python`` with an environment that has ``llama-cpp-python``
and ``gguf``; OpenVINO's is that of ``passsearch toolchain install nncf``. All engines read the same prompt, and decode
its last token in turns in several processes; the prompt of GPT-2 is one token. The scores of the next token are
compared with ONNX Runtime's in float32. ``--table`` prints Markdown from ``benchmarks/results/decoders.json``, or from
the file that ``--out`` names; ``--network`` is that of the zoo, and names after the command choose storages.
"""

import argparse
import copy
import json
import logging
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

import passsearch
from benchmarks.common import (
    RESULTS,
    ROOT,
    markdown,
    network_session,
    note,
    options,
    provenance,
    ratio_text,
    read,
    write,
)
from passsearch.engines import engine_environments
from passsearch.frontends.zoo.llama import llama
from passsearch.frontends.zoo.networks import LARGE_LLAMA
from passsearch.frontends.zoo.transformer import gpt2
from passsearch.measure import mean_ratio
from passsearch.toolchain import engine_python

OUT, PROGRAM = RESULTS / "decoders.json", Path(__file__).with_name("decoder_engines.py")
TOKENS, THREADS = 128, "2"
NETWORKS: Mapping[str, Mapping[str, int]] = {
    "llama_decode": {"heads": 12, "key_heads": 4},
    "llama_large_decode": LARGE_LLAMA,
    "gpt2": {"heads": 12, "key_heads": 12},
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
BLOCKS = {"ONNX Runtime MatMulNBits 8": 8, "ONNX Runtime MatMulNBits 4": 4}
"""Numbers of bits of the blocks of 32 numbers that ONNX Runtime multiplies with activations in int8."""
COMPRESSED = {"OpenVINO int8": "openvino:int8-weights", "OpenVINO int4": "openvino:int4-weights"}
FEW_BITS = {
    "float32": ("llama.cpp F32", "ONNX Runtime"),
    "int8": ("llama.cpp Q8_0", "ONNX Runtime MatMulNBits 8", "OpenVINO int8"),
    "int4": ("llama.cpp Q4_0", "ONNX Runtime MatMulNBits 4", "OpenVINO int4"),
}
"""Other engines with weights in as many bits, by storage."""
RIVALS = {name: FEW_BITS[name.partition(",")[0]] for name in SEQUENCES}


def prepare(folder: Path, arguments: argparse.Namespace) -> tuple[dict[str, list[Any]], Any]:
    """Write prompt, deployments and GGUF files; return the command that serves each engine, and the expected scores."""
    expected = _write_prompt(folder, arguments.network)
    files, commands = _write_onnx(folder, arguments.network), {}
    for name in arguments.storages:
        sequence = SEQUENCES[name]
        note(f"compiling {sequence}")
        to = folder / name
        # All outputs are admitted: their deviation is what is to be stated.
        network = str(files["ONNX Runtime"])
        passsearch.compile(network, pipeline=sequence, rivals=(), toolchain="relax", tolerance=2.0, to=to)
        python = json.loads((to / "compilation.json").read_text())["python"]
        commands[name] = [python, PROGRAM, "serve", "deployment", to]
    heads = [str(NETWORKS[arguments.network][name]) for name in ("heads", "key_heads")]
    for name, kind in TYPES.items():
        file, python = folder / f"{kind}.gguf", arguments.llama_python
        subprocess.run([python, PROGRAM, "write", folder / "weights.npz", kind, file, *heads], check=True)
        commands[name] = [python, PROGRAM, "serve", "llama.cpp", file]
    for name, file in files.items():
        commands[name] = [sys.executable, PROGRAM, "serve", "onnxruntime", file]
    if nncf := engine_python(engine_environments()["nncf"]):
        for name, engine in COMPRESSED.items():
            commands[name] = [nncf, PROGRAM, "serve", engine, files["ONNX Runtime"]]
    return commands, expected


def _network(name: str, *, sequence: int, cached: int = 0) -> onnx.ModelProto:
    """Return the zoo's network; GPT-2 has no keys and values of earlier tokens."""
    return gpt2(sequence=sequence) if name == "gpt2" else llama(sequence=sequence, cached=cached, **NETWORKS[name])


def _write_onnx(folder: Path, name: str) -> dict[str, Path]:
    """Write the network that adds one token, in float32 and with its weights in blocks of few bits."""
    network, files = _network(name, sequence=1, cached=TOKENS - 1), {"ONNX Runtime": folder / "float32.onnx"}
    onnx.save(network, files["ONNX Runtime"])
    _untie(network)
    for name, bits in BLOCKS.items():
        note(f"writing {name}")
        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=4, bits=bits)
        # The quantiser writes into the network, and leaves alone what it has quantised before.
        quantizer = MatMulNBitsQuantizer(copy.deepcopy(network), algo_config=config)
        quantizer.process()
        files[name] = folder / f"blocks{bits}.onnx"
        onnx.save(quantizer.model.model, files[name])
    return files


def _untie(network: onnx.ModelProto) -> None:
    """Give the output layer a constant of its own, as ONNX Runtime's quantiser leaves a transposed embedding alone."""
    (turn,) = [each for each in network.graph.node if each.op_type == "Transpose" and each.input[0] == "embedding_1"]
    (words,) = [each for each in network.graph.initializer if each.name == turn.input[0]]
    network.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(words).T.copy(), turn.output[0]))
    network.graph.node.remove(turn)


def _write_prompt(folder: Path, name: str) -> Any:
    """Write the weights, and the prompt with the keys and values of all tokens but the last; return its scores."""
    count = 1 if name == "gpt2" else TOKENS
    tokens, past = np.random.default_rng(0).integers(0, 32000, count), {}
    network = _network(name, sequence=max(count - 1, 1))
    weights = {each.name: numpy_helper.to_array(each) for each in network.graph.initializer}
    np.savez(folder / "weights.npz", **{name: each for name, each in weights.items() if each.ndim > 0})
    if count > 1:
        session = onnxruntime.InferenceSession(network.SerializeToString())
        names = [each.name for each in session.get_outputs()]
        state = dict(zip(names, session.run(names, {"input_ids": tokens[None, :-1]}), strict=True))
        past = {f"past_{name}": array for name, array in state.items() if name != "logits"}
        del session
    np.savez(folder / "prompt.npz", tokens=tokens, **past)
    del network, weights  # up to 2 GB each
    whole = onnxruntime.InferenceSession(_network(name, sequence=count).SerializeToString())
    return whole.run(["logits"], {"input_ids": tokens[None]})[0].ravel()


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fastest and the median run of each engine in each process, and how far its scores deviate."""
    commands, expected = prepare(folder, arguments)
    times: dict[str, dict[str, list[float]]] = {name: {"fastest_s": [], "median_s": []} for name in commands}
    for process in range(arguments.processes):
        note("process", process + 1, arguments.processes)
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(_server(command, folder, folder / f"{name}.npy"))
                for name, command in commands.items()
            }
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
            for server in servers.values():
                server.answer()
            for _ in range(arguments.rounds):
                for name in random.sample([*servers], len(servers)):
                    rounds[name].append(servers[name].answer(arguments.seconds))
        for name, answers in rounds.items():
            for kind, found in times[name].items():
                found.append(min(each[kind] for each in answers))
    scores = {name: np.load(folder / f"{name}.npy") for name in commands}
    largest = float(np.abs(expected).max())
    deviations = {name: float(np.abs(own - expected).max()) / largest for name, own in scores.items()}
    return {
        **provenance(network_session(f"zoo:{arguments.network}", "relax")),
        "deviation": deviations,
        "process_s": times,
        "ratios": {
            name: {rival: _ratio(times[name], times[rival]) for rival in RIVALS[name] if rival in times}
            for name in arguments.storages
        },
        "gains": {
            name: _ratio(times[name], times["float32"])
            for name in arguments.storages
            if name != "float32" and "float32" in times
        },
    }


def _ratio(own: Mapping[str, list[float]], other: Mapping[str, list[float]]) -> dict[str, Any]:
    logs = [math.log(slow / fast) for fast, slow in zip(own["fastest_s"], other["fastest_s"], strict=True)]
    ratio = mean_ratio(logs)
    return {"ratio": ratio.value, "interval": [ratio.interval.low, ratio.interval.high]}


class _server(subprocess.Popen[str]):  # noqa: N801 -- used as a context
    def __init__(self, command: list[Any], folder: Path, scores: Path) -> None:
        words = [*map(str, command), str(folder / "prompt.npz"), THREADS, str(scores)]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._errors = scores.with_suffix(".txt")
        with self._errors.open("w") as errors:
            pipe = subprocess.PIPE
            super().__init__(words, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=variables)

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()

    def answer(self, seconds: float | None = None) -> dict[str, float]:
        """Return what the engine answers, once it is ready or has run for some seconds."""
        assert self.stdin is not None and self.stdout is not None
        if seconds is not None:
            print(seconds, file=self.stdin, flush=True)
        if line := self.stdout.readline():
            return dict(json.loads(line))
        raise RuntimeError(f"{self.args} ended with status {self.wait()}: {self._errors.read_text()[-2000:]}")


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: a line for each engine."""
    rows = []
    for name, times in document["process_s"].items():
        fastest, median = (1e3 * min(times[kind]) for kind in ("fastest_s", "median_s"))
        beside = [f"{ratio_text(ratio)} of {rival}" for rival, ratio in document["ratios"].get(name, {}).items()]
        rows.append([name, f"{fastest:.2f}", f"{median:.2f}", ratio_text(document["gains"].get(name)),
                     "; ".join(beside) or "–", f"{document['deviation'][name]:.1e}"])  # fmt: skip
    return markdown(("engine", "fastest, ms", "median, ms", "/ float32", "throughput", "largest deviation"), rows)


def main() -> None:
    logging.getLogger("onnxruntime").setLevel(logging.WARNING)
    arguments = options(
        __doc__,
        ("storages", tuple(SEQUENCES)),
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
