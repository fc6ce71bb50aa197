"""How much one rounding of its constants moves a quantised network.

``python -m benchmarks.measurement.moved_constants``: files in ``--folder`` are those of
``benchmarks.speed.integer_networks``. For each, ``moved_constants.json`` has the largest and the mean change of
unoptimised ONNX Runtime's outputs where constants move (the largest of four directions), beside how far ONNX Runtime
with its optimisations is from it, and the outputs on another input.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks.common import RESULTS, markdown, options, read, today, write
from passsearch.dialects.comparison import mean_deviation, relative_deviation
from passsearch.dialects.onnx_rounding import move_constants

FILE = RESULTS / "moved_constants.json"
DIRECTIONS = 4


def row_of(path: Path) -> dict[str, Any]:
    """Return the largest and the mean change of each kind."""
    model, random = onnx.load(str(path)), np.random.default_rng(0)
    plain = _session(model)
    first, other = ([_random(each, random) for each in plain.get_inputs()] for _ in range(2))
    expected = _run(plain, first)
    moved = []
    for seed in range(DIRECTIONS):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        move_constants(changed, seed=seed)
        moved.append(_change(_run(_session(changed), first), expected))
    return {
        "date": today(),
        "runtime": onnxruntime.__version__,
        "moved": np.max(moved, 0).tolist(),
        "optimised": _change(_run(_session(model, is_optimised=True), first), expected),
        "other input": _change(_run(plain, other), expected),
    }


def _session(model: onnx.ModelProto, *, is_optimised: bool = False) -> Any:
    chosen = onnxruntime.SessionOptions()
    if not is_optimised:
        chosen.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), chosen, providers=["CPUExecutionProvider"])


def _random(value: Any, random: np.random.Generator) -> Any:
    if "float" in value.type:
        return random.standard_normal(value.shape).astype("float32")
    return random.integers(0, 30000, value.shape)


def _run(session: Any, arrays: list[Any]) -> Any:
    names = [each.name for each in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def _change(outputs: Any, expected: Any) -> tuple[float, float]:
    return relative_deviation(outputs, expected), mean_deviation(outputs, expected)


def main() -> None:
    """Write a row of each file, and print all."""
    chosen = options(__doc__, folder="/tmp/quantized", table=False)
    for path in [] if chosen.table else sorted(Path(chosen.folder).glob("*.onnx")):
        write(FILE, {**read(FILE), path.stem: row_of(path)})
    kinds = ("moved", "optimised", "other input")
    rows = [(name, *("{:.3f}, {:.3f}".format(*row[kind]) for kind in kinds)) for name, row in read(FILE).items()]
    print(markdown(("network", *kinds), rows))


if __name__ == "__main__":
    main()
