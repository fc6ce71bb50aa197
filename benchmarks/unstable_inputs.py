"""Whether schedules are less exact than plain loops where rounding grows: ``python benchmarks/unstable_inputs.py``.

On inputs that are a hundred times as large, ``zoo:llama_decode`` decides by its softmax between scores of hundreds, and
twelve layers amplify each rounding. For each of several tokens this compares three things:

* the deviation of several builds from an evaluation of the graph in float64 (ONNX's reference implementation),
* the change of the unoptimised build's outputs when its inputs move by one rounding, as the check of outputs does it,
* the deviation of the other builds from the unoptimised one, as a multiple of that change.

``benchmarks/results/unstable_inputs.json`` has the answers, ``--table`` prints them. An hour for 16 tokens.
"""

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

import passsearch
from passsearch.api.engine_artifacts import compile_as_deployed
from passsearch.core import Candidate, CheckInputs, Pipeline
from passsearch.dialects.case_inputs import case_inputs
from passsearch.dialects.comparison import largest_deviation
from passsearch.dialects.reference import MOVEMENTS, neighbouring_inputs
from passsearch.engines import EngineSpec
from passsearch.engines.client import EngineProcess
from passsearch.frontends import resolve_onnx
from passsearch.search import named_candidate
from passsearch.toolchain import cache_folder

RESULTS = Path(__file__).parent / "results" / "unstable_inputs.json"
REFERENCE, SEQUENCE = "unoptimised", "schedule-cpu"
LEFT_OUT: Mapping[str, Sequence[str]] = {
    SEQUENCE: (),
    f"{SEQUENCE} without ExpandMath": ("ExpandMath",),
    f"{SEQUENCE} without ExpandMath and ScheduleRows": ("ExpandMath", "ScheduleRows"),
}
"""Passes that are left out of the sequence, by the name of the build."""


def main() -> None:
    """Measure and write the answers, or print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="llama_decode", help="of the zoo (%(default)s)")
    parser.add_argument("--tokens", type=int, default=16, help="number of tokens that are tried (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the answers, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        measure(options.network, options.tokens, options.out)
    print(table(json.loads(options.out.read_text())))


def measure(network: str, tokens: int, out: Path) -> None:
    """Write the answers for so many tokens, after each token."""
    resolved = resolve_onnx(f"zoo:{network}", folder=cache_folder() / "models")
    exact = in_float64(onnx.load(resolved.file.path))
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        passsearch.session(f"zoo:{network}", toolchain="relax", remember=False) as evaluator,
    ):
        builds = {REFERENCE: compile_as_deployed(evaluator, REFERENCE, Candidate())}
        whole = named_candidate(evaluator.session, SEQUENCE)
        for name, left_out in LEFT_OUT.items():
            passes = tuple(step for step in whole.pipeline.passes if step.name not in left_out)
            builds[name] = compile_as_deployed(evaluator, name, Candidate(Pipeline(passes), whole.build))
        for token in range(tokens):
            inputs = case_inputs(CheckInputs(resolved.types), "large")
            inputs = {
                name: np.full_like(array, token) if array.dtype.kind == "i" else array for name, array in inputs.items()
            }
            rows.append({"token": token, **_compare(builds, inputs, exact, home=Path(folder))})
            document = {
                "date": date.today().isoformat(),
                "network": f"zoo:{network}",
                "inputs": "large",
                "tokens": rows,
            }
            out.write_text(json.dumps(document, indent=1) + "\n")


def _compare(
    builds: Mapping[str, EngineSpec], inputs: Mapping[str, Any], exact: ReferenceEvaluator, *, home: Path
) -> dict[str, Any]:
    """Return deviations from float64 and from the unoptimised build, and that build's changes, on some inputs."""
    doubles = {name: array.astype("float64") if array.dtype == np.float32 else array for name, array in inputs.items()}
    expected = exact.run(None, doubles)
    outputs = {name: run(build, inputs, home) for name, build in builds.items()}
    reference = outputs.pop(REFERENCE)
    moved = [run(builds[REFERENCE], neighbouring_inputs(inputs, seed=seed), home) for seed in range(MOVEMENTS)]
    change = max(largest_deviation(each, reference) for each in moved)
    return {
        "from_float64": {
            name: largest_deviation([array.astype("float64") for array in arrays], expected)
            for name, arrays in {REFERENCE: reference, **outputs}.items()
        },
        "change": change,
        "per_change": {name: largest_deviation(arrays, reference) / change for name, arrays in outputs.items()},
    }


def run(build: EngineSpec, inputs: Mapping[str, Any], home: Path) -> list[Any]:
    """Return the outputs of one inference in a new process."""
    np.savez(home / "inputs.npz", **inputs)
    process = EngineProcess(build, threads=2, log=home / "engines.log")
    try:
        process.open(home / "inputs.npz")
        with tempfile.TemporaryDirectory(dir=home) as folder:
            process.ask("outputs", folder=folder)
            return [np.load(Path(folder) / f"{place}.npy") for place in range(len(list(Path(folder).iterdir())))]
    finally:
        process.close()


def in_float64(model: onnx.ModelProto) -> ReferenceEvaluator:
    """Return an evaluator of the graph with all its floats in double precision."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float64"), tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == TensorProto.FLOAT:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype("float64")))
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return ReferenceEvaluator(model)


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: for each build the deviations from float64, and from the unoptimised build by its change."""
    rows = document["tokens"]
    lines = ["| build | from float64, median | largest | per change, largest | above 1 |", "|---|---:|---:|---:|---:|"]
    for name in rows[0]["from_float64"]:
        exact = [row["from_float64"][name] for row in rows]
        ratios = [row["per_change"][name] for row in rows if name in row["per_change"]]
        ends = f"{max(ratios):.1f} | {sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else "– | –"
        lines.append(f"| {name} | {median(exact):.2g} | {max(exact):.2g} | {ends} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
