"""Ranges of inputs in graphs that each dialect's importer makes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.core import InputRange


def _embedding(path) -> None:
    """Write a network with two tables, an input that is added to an index, and one that only multiplies."""
    tables = {"words": np.zeros((1000, 8), "float32"), "places": np.zeros((514, 8), "float32"), "two": np.array(2)}
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["a"]),
        helper.make_node("Add", ["position", "two"], ["moved"]),
        helper.make_node("Cast", ["moved"], ["narrow"], to=TensorProto.INT32),
        helper.make_node("Gather", ["places", "narrow"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Cast", ["rate"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["c", "factor"], ["y"]),
    ]
    inputs = [("ids", [1, 6]), ("position", [1, 6]), ("rate", [1])]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 8])],
        [numpy_helper.from_array(array, name) for name, array in tables.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_every_dialect_shows_the_tables_that_inputs_index(dialect: str, tmp_path, request) -> None:
    toolchain = request.getfixturevalue(dialect)
    _embedding(tmp_path / "embedding.onnx")
    with passsearch.session(tmp_path / "embedding.onnx", toolchain=toolchain.name, remember=False) as evaluator:
        assert evaluator.network.check.ranges == {
            "ids": InputRange(0, 999, "table"),
            "position": InputRange(0, 511, "table"),
            "rate": InputRange(0, 1, "unknown"),
        }
        assert evaluator.network.check.unknown == ("rate",)
