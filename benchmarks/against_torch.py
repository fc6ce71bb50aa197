"""ResNet-18 by PyTorch and by a tuned Relax build, side by side: ``python against_torch.py --toolchain relax``.

Needs an interpreter with PyTorch and the toolchain's TVM. In every process rounds of both take turns, so that what the
machine does to one it does to the other; both have as many threads. Writes ``results/relax/against_torch.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from provenance import provenance

import passsearch
from passsearch.api.common import network
from passsearch.evaluate import open_session
from passsearch.measure import process_ratio

RESULTS = Path(__file__).parent / "results" / "relax" / "against_torch.json"
WARM, ROUNDS, PROCESSES = 5, 40, 6
"""Rounds before and while samples are kept, and the fewest processes whose range is a 95 % interval."""

LAYERS = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and stride of each pair of blocks."""


class Block(torch.nn.Module):  # type: ignore[misc]
    """Two convolutions and what goes past them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride)
        self.second = convolution(outputs, outputs, 3, 1)
        self.past = torch.nn.Identity() if inputs == outputs else convolution(inputs, outputs, 1, stride)

    def forward(self, data: Any) -> Any:
        """The residual sum."""
        return torch.relu(self.second(torch.relu(self.first(data))) + self.past(data))


def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> Any:
    """A convolution and its batch norm."""
    layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return torch.nn.Sequential(layer, torch.nn.BatchNorm2d(outputs))


def resnet18() -> Any:
    """The network, with random weights from a fixed seed."""
    torch.manual_seed(0)
    blocks, inputs = [], 64
    for outputs, stride in LAYERS:
        blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    stem = (convolution(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1))
    head = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000))
    return torch.nn.Sequential(*stem, *blocks, *head).eval()


def seconds(function: Callable[[], object]) -> float:
    """Of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def timed(compiled: Callable[..., Any], *, threads: int) -> dict[str, Any]:
    """Rounds of both in this process, and how far their outputs are from each other."""
    module, data = resnet18(), torch.randn(1, 3, 224, 224)
    torch.set_num_threads(threads)
    with torch.inference_mode():
        expected = module(data)
        deviation = float((compiled(data) - expected).abs().max() / expected.abs().max())
        turns = [[seconds(lambda: module(data)), seconds(lambda: compiled(data))] for _ in range(WARM + ROUNDS)]
    return {"samples": list(zip(*turns[WARM:], strict=True)), "deviation": deviation}


def compared(command: list[str], *, policy: str) -> dict[str, Any]:
    """Several processes; torch's idle threads spin (``active``) or sleep: who spins keeps a core from the other."""
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    answers = [subprocess.check_output(command, text=True, env=environment) for _ in range(PROCESSES)]
    told = [json.loads(each.splitlines()[-1]) for each in answers]
    processes = [each["samples"] for each in told]
    ratio = process_ratio(processes, 1)
    return {
        "median_s": {
            name: median(value for each in processes for value in each[place])
            for place, name in enumerate(("torch", "relax"))
        },
        "throughput_of_torch": {"ratio": ratio.value, "interval": ratio.interval.to_json()},
        "deviation": max(each["deviation"] for each in told),
    }


def main() -> None:
    """Tune, then time both in several processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--run", type=Path, default=Path("runs/against-torch"))
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the search (%(default)s)")
    parser.add_argument("--threads", type=int, help="time the tuned network in this process and print that")
    arguments = parser.parse_args()
    if arguments.threads:
        print(json.dumps(timed(passsearch.TuneResult.read(arguments.run).compiled, threads=arguments.threads)))
        return
    asked = {"toolchain": arguments.toolchain, "trials": arguments.trials, "confirm": 0, "out": arguments.run}
    module, data = resnet18(), torch.randn(1, 3, 224, 224)
    result = passsearch.tune(module, data, timeout=arguments.timeout, **asked)
    file = network(module, data, inputs=None, batch=None, toolchain=arguments.toolchain)
    chosen = open_session(file, toolchain=arguments.toolchain, target=None)
    _ = result.compiled  # built once, before anything is timed
    command = [sys.executable, __file__, "--run", str(arguments.run), "--threads", str(chosen.threads)]
    document = {
        **provenance(chosen),
        "torch": torch.__version__,
        "threads": chosen.threads,
        "pipeline": result.best.pipeline,
        "processes": PROCESSES,
        **{f"torch's threads wait {policy}": compared(command, policy=policy) for policy in ("active", "passive")},
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
