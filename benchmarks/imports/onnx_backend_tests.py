"""ONNX's own backend tests on one dialect.

``python -m benchmarks.imports.onnx_backend_tests relax [WORD…] [--out FILE]``.

Each test of the onnx package is imported, built without passes and run, in a fork of one process of the toolchain, in
two variants: ``given`` has all inputs at run time, ``frozen`` has all but the first as weights. The outputs are
compared with those that ONNX stores; where they differ, those of ONNX Runtime decide, if it is installed. The answers
are right, refused (at the import, with a reason), unbuilt, wrong, or crashed.
"""

import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.common import options, write
from benchmarks.imports.runner import Answer, ImportRunner, conditions, difference

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
RANDOM = ("bernoulli", "dropout_random", "random", "multinomial", "training_dropout")
"""Parts of the names of tests whose outputs are random numbers."""
LONGEST = 300
"""Longest reason in characters."""
Case = tuple[str, onnx.ModelProto, Mapping[str, Any], Sequence[Any], Mapping[str, float]]


def main() -> None:
    arguments = options(__doc__, ("dialect", "relax"), ("words", ()), out=(Path, "file for the answers, in JSON"))
    began = time.monotonic()
    answers = run(arguments.dialect, arguments.words)
    counts = {
        variant: Counter(answer["state"] for name, answer in answers.items() if name.endswith(variant))
        for variant in ("given", "frozen")
    }
    document = {"seconds": round(time.monotonic() - began), "counts": counts}
    print(json.dumps(document))
    # Neither right as stored nor refused.
    others = {name: each for name, each in answers.items() if each["state"] != "refused" and "reason" in each}
    reasons = {name: f"{each['state']}: {each['reason']}" for name, each in others.items()}
    if arguments.out:
        write(arguments.out, {**conditions(arguments.dialect), **document, "others": reasons})


def run(dialect: str, words: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Return by test and variant the state and the reason; what is not right is printed as it comes."""
    answers: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runner = ImportRunner(dialect, Path(folder))
        for case in cases():
            if words and not any(word in case[0] for word in words):
                continue
            answer = answers[case[0]] = judge(runner, case)
            if answer["state"] not in ("right", "refused"):
                print(f"{case[0]}: {answer['state']}: {answer['reason'][:160]}", file=sys.stderr, flush=True)
        runner.close()
    return answers


def cases() -> Iterator[Case]:
    """Yield name and variant, network, inputs, expected outputs and tolerances of the tests with tensors only."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = {test.name: test for kind in KINDS for test in load_model_tests(kind=kind)}
    for name, test in sorted(tests.items()):
        if any(part in name for part in RANDOM):
            continue
        model = test.model or onnx.load(str(Path(test.model_dir) / "model.onnx"))
        given, expected = test.data_sets[0] if test.data_sets else _stored(Path(test.model_dir))
        weights = {weight.name for weight in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in weights or test.data_sets]
        if not all(isinstance(value, (np.ndarray, np.generic)) for value in (*given, *expected)) or not given:
            continue
        inputs = {key: np.asarray(value) for key, value in zip(names, given, strict=False)}
        outputs = [np.asarray(value) for value in expected]
        tolerances = {"rtol": test.rtol, "atol": test.atol}
        yield f"{name} given", model, inputs, outputs, tolerances
        if len(inputs) > 1:
            yield f"{name} frozen", _frozen(model, inputs), dict([next(iter(inputs.items()))]), outputs, tolerances


def judge(runner: ImportRunner, case: Case) -> dict[str, str]:
    """Return the state of one test, and the reason of every state but ``right``."""
    _, model, inputs, expected, tolerances = case
    try:
        answer = runner.run(model, {"0": inputs})
    except (ValueError, TypeError) as error:  # numbers that numpy has no type for
        answer = Answer("refused", str(error))
    if answer.outputs is None:
        return {"state": answer.state, "reason": answer.reason[:LONGEST]}
    reason = difference(answer.outputs["0"], expected, **tolerances)
    if reason and not _differs_from_runtime(model, inputs, answer.outputs["0"], tolerances):
        return {"state": "right", "reason": f"as ONNX Runtime, not as stored: {reason}"}
    return {"state": "wrong", "reason": reason} if reason else {"state": "right"}


def _differs_from_runtime(
    model: onnx.ModelProto, inputs: Mapping[str, Any], actual: Sequence[Any], tolerances: Mapping[str, float]
) -> bool:
    try:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return bool(difference(actual, session.run(None, dict(inputs)), **tolerances))
    except Exception:  # noqa: BLE001  # it has errors of its own for each cause, none with a common base
        return True


def _frozen(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a copy whose inputs but the first are weights."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _, *others = inputs
    kept = [value for value in copy.graph.input if value.name not in others]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    names = {weight.name for weight in copy.graph.initializer}
    copy.graph.initializer.extend(numpy_helper.from_array(inputs[name], name) for name in others if name not in names)
    return copy


def _stored(folder: Path) -> tuple[list[Any], list[Any]]:
    """Return the inputs and outputs that a test stores in files; what is no tensor is ``None``."""
    data = folder / "test_data_set_0"
    counted = {kind: len(list(data.glob(f"{kind}_*.pb"))) for kind in ("input", "output")}
    arrays = {kind: [_array(data / f"{kind}_{place}.pb") for place in range(count)] for kind, count in counted.items()}
    return arrays["input"], arrays["output"]


def _array(path: Path) -> Any:
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


if __name__ == "__main__":
    main()
