"""Compares ResNet-18 by PyTorch with a tuned Relax build: ``python against_torch.py --toolchain relax``.

Needs an interpreter with PyTorch and the toolchain's TVM. In every process rounds of both take turns, so that a
disturbance of the machine affects both; both have the same number of threads. Writes
``results/relax/against_torch.json``.
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
from passsearch.measure import process_ratio

RESULTS = Path(__file__).parent / "results" / "relax" / "against_torch.json"
WARM, ROUNDS, PROCESSES = 5, 40, 6
"""Rounds that are discarded, rounds that are kept, and the fewest processes whose range is a 95 % interval."""

LAYERS = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and stride of each pair of blocks."""


class Block(torch.nn.Module):  # type: ignore[misc]
    """A residual block: two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride)
        self.second = convolution(outputs, outputs, 3, 1)
        self.shortcut = torch.nn.Identity() if inputs == outputs else convolution(inputs, outputs, 1, stride)

    def forward(self, data: Any) -> Any:
        """Return the residual sum."""
        return torch.relu(self.second(torch.relu(self.first(data))) + self.shortcut(data))


def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> Any:
    """Return a convolution with its batch norm."""
    layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return torch.nn.Sequential(layer, torch.nn.BatchNorm2d(outputs))


def resnet18() -> Any:
    """Return the network, with random weights from a fixed seed."""
    torch.manual_seed(0)
    blocks, inputs = [], 64
    for outputs, stride in LAYERS:
        blocks += [Block(inputs, outputs, stride), Block(outputs, outputs, 1)]
        inputs = outputs
    stem = (convolution(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1))
    head = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000))
    return torch.nn.Sequential(*stem, *blocks, *head).eval()


def run_s(function: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def time_both(compiled: Callable[..., Any], *, threads: int) -> dict[str, Any]:
    """Time both in this process, in turns, and return the samples and the deviation of the outputs."""
    module, data = resnet18(), torch.randn(1, 3, 224, 224)
    torch.set_num_threads(threads)
    with torch.inference_mode():
        expected = module(data)
        deviation = float((compiled(data) - expected).abs().max() / expected.abs().max())
        rounds = [[run_s(lambda: module(data)), run_s(lambda: compiled(data))] for _ in range(WARM + ROUNDS)]
    return {"samples": list(zip(*rounds[WARM:], strict=True)), "deviation": deviation}


def compare(command: list[str], *, policy: str) -> dict[str, Any]:
    """Return the ratio over several processes.

    Args:
        command: Command that runs ``time_both`` and prints its result.
        policy: ``active``: torch's waiting threads spin and keep cores from TVM's threads; or ``passive``: they sleep.
    """
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    outputs = [subprocess.check_output(command, text=True, env=environment) for _ in range(PROCESSES)]
    processes = [json.loads(output.splitlines()[-1]) for output in outputs]
    pairs = [process["samples"] for process in processes]
    ratio = process_ratio(pairs)
    return {
        "median_s": {
            name: median(value for pair in pairs for value in pair[place])
            for place, name in enumerate(("torch", "relax"))
        },
        "throughput_of_torch": {"ratio": ratio.value, "interval": ratio.interval.to_json()},
        "deviation": max(process["deviation"] for process in processes),
    }


def main() -> None:
    """Tune, time both in several processes and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--run", type=Path, default=Path("runs/against-torch"))
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for the search (%(default)s)")
    parser.add_argument("--threads", type=int, help="time the tuned network in this process and print that")
    arguments = parser.parse_args()
    if arguments.threads:
        print(json.dumps(time_both(passsearch.TuneResult.read(arguments.run).compiled, threads=arguments.threads)))
        return
    module, data = resnet18(), torch.randn(1, 3, 224, 224)
    options = {"toolchain": arguments.toolchain, "trials": arguments.trials, "confirm": 0, "out": arguments.run}
    result = passsearch.tune(module, data, timeout=arguments.timeout, **options)
    with passsearch.session(module, data, toolchain=arguments.toolchain) as evaluator:
        session = evaluator.session
    _ = result.compiled  # built once, before anything is timed
    command = [sys.executable, __file__, "--run", str(arguments.run), "--threads", str(session.threads)]
    document = {
        **provenance(session),
        "torch": torch.__version__,
        "threads": session.threads,
        "pipeline": result.best.pipeline,
        "processes": PROCESSES,
        **{f"torch's threads wait {policy}": compare(command, policy=policy) for policy in ("active", "passive")},
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
