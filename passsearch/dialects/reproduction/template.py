"""The functions that scripts of reproductions consist of; ``script`` writes those that a fault needs to one file.

This one builds with a bridge, so it shows whatever passsearch shows. ``reproduction.py`` of a dialect has an ``of_tvm``
that needs TVM alone.
"""

import json
import math
import statistics
import tempfile
import timeit
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx

FAULT: Any = {}
MODEL = Path(__file__).parent / "network.onnx"


def say(**what: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(what), flush=True)


def random_inputs() -> Any:
    """Yield the inputs by name."""
    rng = np.random.default_rng(0)
    for value in onnx.load(str(MODEL)).graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        array = rng.standard_normal(shape) if kind.elem_type in (1, 10, 11, 16) else rng.integers(0, 2, shape)
        yield value.name, np.array(array).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


def of_tvm(side: Any, data: Any) -> Any:
    """Return the outputs of a pipeline, and a function that runs it."""
    from passsearch.core import BuildOptions, Pipeline
    from passsearch.dialects.contract import ModelSource

    module, _, name = FAULT["bridge"].partition(":")
    bridge = getattr(import_module(module), name)(FAULT["target"])
    say(step="import")
    network = bridge.load(ModelSource(MODEL, "onnx", {}))
    for text, factory, _ in side["passes"]:
        say(step=text)
        network = bridge.apply(network, Pipeline.parse(text).passes[0], factory=factory)
    say(step="build")
    artifact = bridge.build(network, BuildOptions.from_json(side["build"]), Path(tempfile.mkdtemp()))
    say(step="run")
    executable = bridge.open(artifact, "cpu")
    return executable.run(data), lambda: executable.run_repeatedly(1)


def of_onnx(data: Any) -> Any:
    """Return the outputs of ONNX Runtime as the file stands, or of ONNX's evaluator."""
    try:
        import onnxruntime as ort
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(onnx.load(str(MODEL))).run(None, data), None
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"]).run(None, data), None


def of_onnxruntime(data: Any) -> Any:
    """Return a function that runs ONNX Runtime."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = FAULT["threads"]
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])
    return None, lambda: session.run(None, data)


def deviation(outputs: Any, expected: Any) -> float:
    """Return the largest difference, as a share of the largest output; 1e30 for outputs of other shapes."""
    worst = 0.0
    for output, other in zip(outputs, expected, strict=False):
        output, other = np.asarray(output, "float64"), np.asarray(other, "float64")
        if output.shape != other.shape:
            return 1e30
        is_same = (output == other) | (np.isnan(output) & np.isnan(other))
        differences = np.nan_to_num(np.where(is_same, 0, abs(output - other)), nan=1e30, posinf=1e30)
        worst = max(worst, differences.max(initial=0) / abs(other[np.isfinite(other)]).max(initial=1e-30))
    return float(worst)


def time_pairs(run: Any, other: Any) -> None:
    """Print how many times as long the first one takes."""
    run(), other()
    once_s, logs = timeit.timeit(run, number=1), []
    number, pairs = 1 + int(0.01 / once_s), 6 + int(min(24, 1 / once_s))
    for place in range(pairs):
        # The first repetition meets caches that hold the data of the other network.
        calls = (run, other)[:: 1 if place % 2 else -1]
        seconds = {call: min(timeit.repeat(call, number=number, repeat=2)) / number for call in calls}
        logs.append(math.log(seconds[run] / seconds[other]))
    low, middle, high = map(math.exp, statistics.quantiles(logs, n=4))
    say(ratio=middle, quartiles=[low, high], pairs=pairs, last_s=[seconds[run], seconds[other]])
