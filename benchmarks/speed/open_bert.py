"""A BERT-like encoder with a mask, of open lengths, and the engines that run it one length after the other.

``python benchmarks/speed/open_bert.py write SIZE FILE`` writes it as ONNX; ``serve ENGINE SIZE PATH`` runs it, as
``buckets.py`` asks. Needs PyTorch for ``write`` and for the engine ``inductor``, and nothing of passsearch.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"small": (4, 256, 4), "base": (12, 768, 12)}
"""Layers, width and heads by name."""

WORDS, LONGEST = 30_522, 512

THREADS = 2

Run = Callable[[Any, Any], Any]


def module_of(size: str) -> Any:
    """Return the encoder with random weights: it takes identifiers and a mask, and returns the states of the tokens."""
    import torch
    from torch import nn

    layers, width, heads = SIZES[size]

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.mixed = (nn.Linear(width, width) for _ in range(4))
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first, self.second = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

        def forward(self, states: Any, bias: Any) -> Any:
            query, key, value = (
                layer(states).unflatten(-1, (heads, width // heads)).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            scores = query @ key.transpose(-1, -2) / (width // heads) ** 0.5 + bias
            context = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
            states = self.first(states + self.mixed(context))
            return self.second(states + self.narrow(nn.functional.gelu(self.wide(states))))

    class Encoder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LONGEST, width)
            self.norm = nn.LayerNorm(width, eps=1e-12)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, ids: Any, mask: Any) -> Any:
            places = torch.arange(ids.shape[1], device=ids.device)
            states = self.norm(self.words(ids) + self.places(places))
            bias = (1.0 - mask[:, None, None, :].to(states.dtype)) * torch.finfo(states.dtype).min
            for layer in self.layers:
                states = layer(states, bias)
            return states

    torch.manual_seed(0)
    return Encoder().eval()


def write(size: str, file: str) -> None:
    """Write the encoder as ONNX with open lengths."""
    import torch

    inputs = (torch.ones(1, 16, dtype=torch.int64), torch.ones(1, 16, dtype=torch.int64))
    names = ["ids", "mask"]
    axes = {name: {1: "length"} for name in (*names, "states")}
    options: Any = {"input_names": names, "output_names": ["states"], "dynamic_axes": axes, "opset_version": 17}
    with torch.no_grad():
        torch.onnx.export(module_of(size), inputs, file, dynamo=False, **options)


def inputs_of(length: int) -> tuple[Any, Any]:
    """Return identifiers and a mask whose last quarter hides."""
    random = np.random.default_rng(length)
    mask = np.ones((1, length), "int64")
    mask[:, max(1, length - length // 4) :] = 0
    return random.integers(0, WORDS, (1, length)), mask


def _passsearch(_: str, path: str) -> Run:
    sys.path.insert(0, path)
    import run_model

    network = run_model.load(Path(path) / "built")
    return lambda ids, mask: network(ids, mask)[0]


def _passsearch_open(_: str, path: str) -> Run:
    """The function of open sizes alone."""
    sys.path.insert(0, path)
    import run_model

    network = run_model.load(Path(path) / "built", function="main__open")
    return lambda ids, mask: network(ids, mask)[0]


def _onnxruntime(_: str, path: str) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]


def _inductor(size: str, _: str) -> Run:
    import torch

    torch.set_num_threads(THREADS)
    compiled = torch.compile(module_of(size), dynamic=True)

    def run(ids: Any, mask: Any) -> Any:
        with torch.inference_mode():
            return compiled(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    return run


ENGINES: dict[str, Callable[[str, str], Run]] = {
    "passsearch": _passsearch,
    "passsearch, open sizes": _passsearch_open,
    "onnxruntime": _onnxruntime,
    "inductor": _inductor,
}


def serve(engine: str, size: str, path: str) -> None:
    """Answer each line of standard input, a length, a time in seconds and a file, by the times of calls.

    The outputs go to the file, where one is named.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    begin = time.perf_counter()
    run = ENGINES[engine](size, path)
    print(json.dumps({"load_s": time.perf_counter() - begin}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        inputs = inputs_of(request["length"])
        begin = time.perf_counter()
        outputs = run(*inputs)
        first_s = time.perf_counter() - begin
        if request.get("file"):
            np.save(request["file"], outputs)
        seconds: list[float] = []
        while sum(seconds) < request["seconds"] or len(seconds) < 3:
            begin = time.perf_counter()
            run(*inputs)
            seconds.append(time.perf_counter() - begin)
        times = {"fastest_s": min(seconds), "median_s": statistics.median(seconds)}
        answer = {"first_s": first_s, **times, "calls": len(seconds)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    {"write": write, "serve": serve}[sys.argv[1]](*sys.argv[2:])
