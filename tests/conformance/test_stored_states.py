"""A pass gives the same IR whether the IR it is applied to was stored and read again or stayed in memory."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from passsearch.catalog import load
from passsearch.dialects import dialect
from passsearch.toolchain import Toolchain, host_target

SCRIPT = Path(__file__).with_name("stored_state_cases.py")
CHANNELS, SIDE = 32, 28


def write_network(path: Path) -> Path:
    """Write convolutions with equal weights, as in networks whose last batch norms start with zeros."""
    shape, weights = (1, CHANNELS, SIDE, SIDE), np.zeros((CHANNELS, CHANNELS, 3, 3), "float32")
    ones, zeros = np.ones(CHANNELS, "float32"), np.zeros(CHANNELS, "float32")
    initializers, nodes, value = [], [], "x"
    for number in range(3):
        values = {"w": weights, "scale": ones, "bias": zeros, "mean": zeros, "variance": ones}
        names = [f"{name}{number}" for name in values]
        initializers += [numpy_helper.from_array(array, f"{name}{number}") for name, array in values.items()]
        nodes += [
            helper.make_node("Conv", [value, names[0]], [f"conv{number}"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", [f"conv{number}", *names[1:]], [f"norm{number}"]),
            helper.make_node("Relu", [f"norm{number}"], [f"relu{number}"]),
            helper.make_node("Add", [f"relu{number}", "x"], [f"sum{number}"]),
        ]
        value = f"sum{number}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", value)]
    graph = helper.make_graph(nodes, "equal_weights", ends[:1], ends[1:], initializers)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["relay", "relax"])
def test_sequences_reach_the_same_through_stored_states(
    name: str, every: int, toolchain_of: Callable[[str], Toolchain], tmp_path: Path
) -> None:
    toolchain = toolchain_of(name)
    catalog = load(name)
    sequences = {
        sequence.name: [
            {
                "name": step.name,
                "arguments": step.argument_values,
                "factory": catalog.entry(step.name).factory,
                "phases": list(catalog.entry(step.name).phases),
            }
            for step in sequence.pipeline.passes
        ]
        for sequence in list(catalog.sequences.values())[::every]
    }
    request = {
        "bridge": dialect(name).bridge,
        "target": host_target(toolchain),
        "network": str(write_network(tmp_path / "network.onnx")),
        "sequences": sequences,
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    done = subprocess.run(
        [str(toolchain.python), str(SCRIPT), str(tmp_path / "request.json")],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    assert {each["case"]: each["differs"] for each in results} == dict.fromkeys(sequences)
