"""Large weights of an ONNX network stay in their file, whatever the names of other tensors are."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from passsearch.dialects import onnx_weights
from passsearch.dialects.constant_table import MAPPED_BYTES

COUNT = MAPPED_BYTES // 4


def test_a_tensor_in_an_attribute_is_read_though_a_mapped_weight_has_its_name(tmp_path: Path) -> None:
    values = np.arange(COUNT, dtype="float32")
    (tmp_path / "weights.bin").write_bytes(values.tobytes())
    weight = TensorProto(name="w", dims=[COUNT], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": 0, "length": values.nbytes}.items():
        weight.external_data.add(key=key, value=str(value))
    nodes = [helper.make_node("Constant", [], ["c"], value=weight), helper.make_node("Add", ["w", "c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", 1, [COUNT])], [weight])
    (tmp_path / "network.onnx").write_bytes(helper.make_model(graph).SerializeToString())

    model = onnx_weights.load(tmp_path / "network.onnx")

    assert onnx_weights.is_mapped(model.graph.initializer[0])
    assert np.array_equal(numpy_helper.to_array(model.graph.node[0].attribute[0].t), values)
    assert np.array_equal(onnx_weights.mapped_array(model.graph.initializer[0], tmp_path), values)
