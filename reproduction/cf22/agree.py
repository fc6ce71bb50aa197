"""Compares the outputs of a built network with its framework's: ``python agree.py FOLDER CASES.npz DEVICE``.

Runs in the toolchain's interpreter (TVM and numpy only). Prints, as JSON, the largest deviation of each case as a share
of the largest output; ``null`` where shapes differ or a value is not finite.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tvm
from tvm.contrib import graph_executor

TINY = 1e-30
"""Divisor for outputs that are all zero."""


def main() -> None:
    """Run every case and print its deviation."""
    folder, cases, device = Path(sys.argv[1]), np.load(sys.argv[2]), tvm.device(sys.argv[3])
    library = tvm.runtime.load_module(str(folder / "kernels.so"))
    executor = graph_executor.create((folder / "graph.json").read_text(), library, device)
    executor.load_params((folder / "parameters.bin").read_bytes())
    numbers = sorted({key.split("/")[1] for key in cases.files})
    json.dump([deviation(executor, dict(cases), number) for number in numbers], sys.stdout)


def deviation(executor: graph_executor.GraphModule, cases: dict[str, np.ndarray], number: str) -> float | None:
    """Return the largest deviation of one case over all outputs."""
    for key in (key for key in cases if key.startswith(f"in/{number}/")):
        executor.set_input(key.split("/", 2)[2], cases[key])
    executor.run()
    expected = [cases[key] for key in cases if key.startswith(f"out/{number}/")]
    outputs = [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]
    if [array.shape for array in outputs] != [array.shape for array in expected]:
        return None
    pairs = zip(outputs, expected)  # noqa: B905
    worst = np.max([np.abs(a - b).max() / max(np.abs(b).max(), TINY) for a, b in pairs])
    return float(worst) if np.isfinite(worst) else None


if __name__ == "__main__":
    main()
