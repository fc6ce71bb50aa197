"""Tests of ONNX files with fixed shapes, which engines read."""

import onnx
import pytest
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import resolve_onnx


@pytest.fixture
def network(tmp_path):
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return path


@pytest.mark.parametrize("model", ["net.tflite", object()], ids=["file", "object"])
def test_a_network_in_another_format_is_refused_before_it_is_read(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tflite").write_bytes(b"x")
    with pytest.raises(UserError, match=r"Engines read ONNX|is no network"):
        resolve_onnx(model, folder=tmp_path)


def test_open_sizes_are_fixed_in_a_copy(tmp_path, network):
    fixed = resolve_onnx(network, batch=2, folder=tmp_path / "kept")
    assert fixed.types == {"x": TensorType((2, 3), "float32")}
    assert fixed.file.path.parent == tmp_path / "kept"
    assert fixed.file.original.path == network


@pytest.mark.parametrize("error", [EncodeError("Failed to serialize proto"), ValueError("larger than the 2 GB limit")])
def test_a_copy_that_is_too_large_for_one_file_is_refused(tmp_path, network, monkeypatch, error):
    def save(*_):
        raise error

    # What `onnx.save` raises depends on the version of protobuf. A real copy would need 2 GiB of memory.
    monkeypatch.setattr(onnx, "save", save)
    with pytest.raises(
        UserError, match=r"open.onnx` leaves sizes open.* export the network with fixed sizes"
    ) as refusal:
        resolve_onnx(network, batch=2, folder=tmp_path / "kept")
    assert "\n" not in str(refusal.value)
    assert not list((tmp_path / "kept").iterdir())
