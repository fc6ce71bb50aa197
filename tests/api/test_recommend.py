"""``recommend``: from the corpus, without building anything."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import passsearch
from passsearch.results import NetworkRecommendation
from passsearch.toolchain import Toolchain


@pytest.fixture(scope="module")
def recommendation(relax: Toolchain) -> passsearch.api.Recommendation:
    return passsearch.recommend("zoo:bert_tiny", toolchain=relax.name, target="llvm -mcpu=znver2")


def test_it_takes_less_than_a_second_beyond_the_import(recommendation: passsearch.api.Recommendation) -> None:
    assert recommendation["seconds"]["recommend"] < 1


def test_it_says_what_to_expect(recommendation: passsearch.api.Recommendation) -> None:
    record = NetworkRecommendation.from_json(recommendation)
    assert not record.abstained and len(record.alike) >= 3 and record.over_default is not None
    assert record.over_default.ratio is not None and record.over_default.ratio > 5
    assert record.pipeline.name in str(recommendation) and "TVM's default" in str(recommendation)


def test_the_analysis_has_it_too(recommendation: passsearch.api.Recommendation, relax: Toolchain) -> None:
    analysis = passsearch.analyze("zoo:bert_tiny", toolchain=relax.name)
    stated = analysis.to_json()["recommendation"]
    assert {**stated, "seconds": {}, "target": "", "processor": ""}.keys() == recommendation.keys()


def test_it_abstains_on_a_processor_that_was_not_measured(relax: Toolchain) -> None:
    document = passsearch.recommend("zoo:resnet_tiny", toolchain=relax.name, target="llvm -mcpu=nehalem")
    assert "nehalem" in document["abstained"] and document["over_default"] is None
    assert document["pipeline"]["name"] == "winograd-schedule-cpu"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_of_16_bits_decide_and_not_the_types_of_inputs_and_outputs(
    relax: Toolchain, tmp_path: Path, dtype: str
) -> None:
    """A decoder has tokens as its input, and its file casts the logits to float32."""
    random = np.random.default_rng(0)
    weights = {"table": random.standard_normal((256, 64)), "head": random.standard_normal((64, 256))}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "head"], ["short"]),
        helper.make_node("Cast", ["short"], ["logits"], to=TensorProto.FLOAT),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, (1, 1))
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, (1, 1, 256))
    arrays = [numpy_helper.from_array(value.astype(dtype), name) for name, value in weights.items()]
    path = tmp_path / "decoder.onnx"
    graph = helper.make_graph(nodes, "decoder", [ids], [logits], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    document = passsearch.recommend(path, toolchain=relax.name)
    assert (document["pipeline"]["name"] == "halves-schedule-cpu") == (dtype == "float16")
