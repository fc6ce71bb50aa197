"""Networks that are wrong only once they have run for a while, built and timed by a real compiler."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import Built
from passsearch.toolchain import Toolchain

PASSES = Path(__file__).parents[1] / "data" / "unsteady_relax_passes.py"


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A network that doubles its input."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["y"])],
        "double",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 16])],
        [numpy_helper.from_array(np.array(2, "float32"), "two")],
    )
    path = tmp_path / "double.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog with the passes."""
    (tmp_path / PASSES.name).write_text(PASSES.read_text())
    entry = '  - {{name: {0}, summary: x., factory: "{1}:{2}", opt_level: 0, role: additional, reason: test}}\n'
    entries = [entry.format(name.title(), PASSES.stem, name) for name in ("stops", "clears")]
    path = tmp_path / "passes.yaml"
    path.write_text("passes:\n" + "".join(entries))
    return path


def test_a_kernel_that_stops_or_writes_to_its_input_is_no_candidate(
    relax: Toolchain, network: Path, catalog: Path
) -> None:
    with passsearch.session(network, toolchain=relax.name, catalogs=[catalog], remember=False) as evaluator:
        plain = evaluator.build_candidate(Candidate(build=BuildOptions()))
        stops = evaluator.build_candidate(Candidate(Pipeline.parse("Stops")))
        assert isinstance(plain, Built) and isinstance(stops, Built), "it computes for as long as outputs are compared"
        timed = evaluator.sample(plain, stops)
        assert isinstance(timed, Failure) and timed.kind == "wrong_result"
        assert "after the calls that were timed, outputs deviate on inputs of seed 2" in timed.reason
        clears = evaluator.build_candidate(Candidate(Pipeline.parse("Clears")))
        assert isinstance(clears, Failure) and clears.reason == "the network changes its input `x`"


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_a_right_network_is_still_right_after_it_was_timed(
    dialect: str, network: Path, request: pytest.FixtureRequest
) -> None:
    toolchain: Toolchain = request.getfixturevalue(dialect)
    with passsearch.session(network, toolchain=toolchain.name, remember=False) as evaluator:
        plain = evaluator.build_candidate(Candidate(build=BuildOptions()))
        assert isinstance(plain, Built)
        assert not isinstance(evaluator.sample(plain, plain), Failure)
        assert plain.agreement.cases == len(evaluator.builder.verification.cases) == 10
