"""Random ONNX networks against ONNX Runtime.

``python -m benchmarks.imports.fuzz_imports relax --count 500 --out FILE``.

Each network is imported, built without passes and run on usual and nasty inputs: zeros, large and denormal numbers,
infinities, and what is not a number. Where the outputs are not ONNX Runtime's, ONNX's reference implementation decides.
The JSON has counts, the seeds that are wrong, and for each kind of fault the smallest network that shows it. With files
in place of seeds, these are compared.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks.common import options, write
from benchmarks.imports.fuzz_networks import Network
from benchmarks.imports.runner import ImportRunner, conditions, difference

STEPS = (3, 12)
"""Least and most operators of a network."""
ROUNDING = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-6}
"""Allowed deviation, relative to the largest output."""
KINDS = ("usual", "zeros", "ones", "large", "huge", "tiny", "denormal", "nan", "inf", "-inf")
OVERFLOWS = ("huge", "inf", "-inf")
"""Inputs for which the order of a sum decides whether its result is an infinity or not a number."""

LARGEST = frozenset(
    {"ArgMax", "GlobalMaxPool", "GRU", "LSTM", "MaxPool", "ReduceMax", "ReduceMin", "Resize", "ThresholdedRelu", "TopK"}
)
"""Operators that ONNX Runtime computes in its own way where some numbers are none, whatever the inputs were.

A linear Resize adds a neighbour with the weight 0, and that neighbour may be another one."""


def main() -> None:
    arguments = options(
        __doc__, ("dialect", "relax"), ("files", ()), count=500, seed=(0, "the first one"), out=(Path, "file, in JSON")
    )
    onnxruntime.set_default_logger_severity(4)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    networks = ((name, onnx.load(name)) for name in arguments.files) if arguments.files else map(network, seeds)
    began, described, answers = time.monotonic(), conditions(arguments.dialect), {}
    with tempfile.TemporaryDirectory() as folder:
        runner = ImportRunner(arguments.dialect, Path(folder))
        for name, model in networks:
            answers[name] = compare(runner, model)
            document = {**described, "seconds": round(time.monotonic() - began), **_summary(answers)}
            # After each, so that a run that is stopped has what it found.
            if arguments.out:
                write(arguments.out, document)
        runner.close()
    print(json.dumps(document["counts"]))


def network(seed: int) -> tuple[str, onnx.ModelProto]:
    """Return the random network of a seed."""
    made = Network(seed)
    return str(seed), made.grow(int(made.random.integers(*STEPS)))


def compare(runner: ImportRunner, model: onnx.ModelProto) -> dict[str, str]:
    """Return the state of a network with the reason, and of a wrong one the first wrong operator and its network."""
    # numpy and PyTorch keep NaN here, ONNX Runtime does not.
    has_maximum = any(node.op_type in LARGEST for node in model.graph.node)
    cases = {kind: inputs(model, kind) for kind in KINDS if not (has_maximum and kind == "nan")}
    cases = {kind: case for kind, case in cases.items() if not (has_maximum and _meets_nan(model, case))}
    expected = {kind: reference(model, case) for kind, case in cases.items()}
    if not cases or not all(all(each) for each in expected.values()):
        return {"state": "skipped", "reason": "ONNX Runtime does not run it"}
    answer = runner.run(model, cases)
    if answer.outputs is None:
        result = {"state": answer.state, "reason": answer.reason}
    else:
        reasons = {kind: _wrong(answer.outputs[kind], expected[kind], kind) for kind in cases}
        wrong = [
            (kind, reason)
            for kind, reason in reasons.items()
            if reason and not _is_as_defined(model, cases[kind], answer.outputs[kind], kind)
        ]
        if not wrong:
            return {"state": "right"}
        kind, reason = wrong[0]
        result = {"state": "wrong", "reason": reason, "inputs": " ".join(kind for kind, _ in wrong)}
        result |= first_wrong(runner, model, cases[kind], kind)
    print(
        json.dumps({key: text[:200] for key, text in result.items() if key != "network"}), file=sys.stderr, flush=True
    )
    return result


def first_wrong(runner: ImportRunner, model: onnx.ModelProto, case: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the first operator with a wrong output, and a network of it alone if that is wrong too."""
    whole, names = _whole(model)
    answer, expected = runner.run(whole, {kind: case}), reference(whole, case)
    if answer.outputs is None:
        return {"operator": "?", "network": onnx.printer.to_text(model)}
    for place, name in enumerate(names):
        if _wrong([answer.outputs[kind][place]], [[each[place]] for each in expected], kind):
            node = next(node for node in model.graph.node if name in node.output)
            values = {**dict(zip(names, expected[0], strict=True)), **case}
            return {"operator": node.op_type, "network": onnx.printer.to_text(_alone(model, node, values))}
    return {"operator": "?", "network": onnx.printer.to_text(model)}


def _whole(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a network whose outputs are all values that it computes, and their names."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output if name]
    del whole.graph.output[:]
    whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return whole, names


def _meets_nan(model: onnx.ModelProto, case: Mapping[str, Any]) -> bool:
    values = _run(_whole(model)[0], case, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    return any(value.dtype.kind == "f" and bool(np.isnan(value).any()) for value in values)


def _alone(model: onnx.ModelProto, node: onnx.NodeProto, values: Mapping[str, Any]) -> onnx.ModelProto:
    """Return the network of one operator; its inputs are the values that are not weights."""
    weights = [each for each in model.graph.initializer if each.name in node.input]
    kinds = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape)
        for name in dict.fromkeys(node.input)
        if name in values and name not in {weight.name for weight in weights}
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "alone", kinds, outputs, weights)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


def inputs(model: onnx.ModelProto, kind: str) -> dict[str, Any]:
    """Return inputs of one kind, the same ones at every call."""
    random, arrays = np.random.default_rng(11), {}
    weights = {weight.name for weight in model.graph.initializer}
    for value in (value for value in model.graph.input if value.name not in weights):
        tensor = value.type.tensor_type
        shape = [size.dim_value or 1 for size in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "f":
            with np.errstate(all="ignore"):
                arrays[value.name] = _floats(kind, random.standard_normal(shape), random.random(shape)).astype(dtype)
        elif dtype.kind == "b":
            arrays[value.name] = np.asarray(random.random(shape) < 0.5)
        else:
            arrays[value.name] = (np.zeros(shape) if kind == "zeros" else random.integers(0, 20, shape)).astype(dtype)
    return arrays


def _floats(kind: str, normal: Any, uniform: Any) -> Any:
    scales = {"large": 1e4, "huge": 1e30, "tiny": 1e-30, "denormal": 1e-40, "usual": 1.0}
    if kind in scales:
        return normal * scales[kind]
    if kind in ("zeros", "ones"):
        return np.full(normal.shape, float(kind == "ones"))
    return np.where(uniform < 0.1, float(kind), normal)


def reference(model: onnx.ModelProto, case: Mapping[str, Any]) -> list[list[Any]]:
    """Return the outputs of ONNX Runtime, with its optimisations, without, and in float16 by operator; each is right.

    Between operators in float16, ONNX Runtime keeps float32, so that what overflows in float16 does not.
    """
    levels = onnxruntime.GraphOptimizationLevel
    outputs = [_run(model, case, level) for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL)]
    is_narrow = any(array.dtype == "float16" for array in case.values())
    return [*outputs, _run_by_operator(model, case)] if is_narrow and all(outputs) else outputs


def _run_by_operator(model: onnx.ModelProto, case: Mapping[str, Any]) -> list[Any]:
    """Return the outputs of ONNX Runtime where every operator is a network of its own."""
    values = {**{weight.name: numpy_helper.to_array(weight) for weight in model.graph.initializer}, **case}
    for node in model.graph.node:
        names = [name for name in node.output if name]
        alone = _alone(model, node, values)
        given = {value.name: values[value.name] for value in alone.graph.input}
        outputs = _run(alone, given, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        if not outputs:
            return []
        values.update(zip(names, outputs, strict=True))
    return [values[output.name] for output in model.graph.output]


def _run(model: onnx.ModelProto, case: Mapping[str, Any], level: Any) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(case)))
    except Exception:  # noqa: BLE001  # it has errors of its own for each cause, none with a common base
        return []


def _is_as_defined(model: onnx.ModelProto, case: Mapping[str, Any], actual: Sequence[Any], kind: str) -> bool:
    """Return whether outputs are those of ONNX's reference implementation, which loses less of large numbers.

    ONNX Runtime multiplies data by the scale of an instance norm before it subtracts the mean.
    """
    try:
        with np.errstate(all="ignore"):
            expected = ReferenceEvaluator(model).run(None, dict(case))
    except Exception:  # noqa: BLE001  # it has errors of its own for each cause, none with a common base
        return False
    return not _wrong(actual, [list(map(np.asarray, expected))], kind)


def _wrong(actual: Sequence[Any], expected: Sequence[Sequence[Any]], kind: str) -> str:
    """Return in what the outputs differ from both of ONNX Runtime's, an empty text if from one of them they do not."""
    reasons = [
        next(filter(None, (_deviation(*pair, kind) for pair in zip(actual, each, strict=False))), "")
        for each in expected
    ]
    return reasons[0] if all(reasons) else ""


def _deviation(actual: Any, right: Any, kind: str) -> str:
    if kind in OVERFLOWS and actual.dtype == right.dtype and actual.shape == right.shape and right.dtype.kind == "f":
        known = np.isfinite(actual) & np.isfinite(right)
        actual, right = actual[known], right[known]
    finite = np.abs(right[np.isfinite(right)].astype("float64")) if right.dtype.kind == "f" else np.zeros(0)
    rounding = ROUNDING.get(str(right.dtype), 0)
    # TVM's own tanh has errors of 1e-7, which is what tiny inputs give.
    floor = 1e-6 if kind in ("tiny", "denormal") else 0.0
    return difference([actual], [right], rtol=rounding, atol=max(floor, rounding * float(finite.max(initial=0))))


def _summary(answers: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    counts = Counter(answer["state"] for answer in answers.values())
    others = {name: dict(answer) for name, answer in answers.items() if answer["state"] not in ("right", "skipped")}
    kinds: dict[str, dict[str, str]] = {}
    for name, answer in others.items():
        network_text = answer.pop("network", "")
        kind = f"{answer['state']} {answer.get('operator', '')}".strip()
        if network_text and len(network_text) < len(kinds.get(kind, {"network": "x" * 10**6})["network"]):
            kinds[kind] = {"name": name, "network": network_text}
    return {"counts": dict(counts), "others": others, "smallest": kinds}


if __name__ == "__main__":
    main()
