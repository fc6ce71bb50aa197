"""ONNX files with operators of other domains, and with weights in other places than they say."""

from collections.abc import Iterator
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper


def weight(**place: object) -> TensorProto:
    """Return a weight of four numbers in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def graph(*weights: TensorProto, node: NodeProto | None = None) -> GraphProto:
    """Return a graph with one operator."""
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    return helper.make_graph([node or helper.make_node("Relu", ["w"], ["out"])], "../../g", [], [output], weights)


def save(path: Path, model: ModelProto) -> Path:
    """Write a model and sixteen bytes of weights beside it."""
    path.write_bytes(model.SerializeToString())
    (path.parent / "weights").write_bytes(bytes(16))
    return path


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    (folder / "linked").symlink_to("/etc/passwd")
    (folder / "linked-folder").symlink_to("/etc")
    places = {
        "absolute": {"location": "/etc/passwd"},
        "above": {"location": "../../etc/passwd"},
        "link": {"location": "linked"},
        "link-folder": {"location": "linked-folder/passwd"},
        "folder": {"location": "."},
        "end": {"location": "weights", "offset": 8, "length": 16},
        "negative": {"location": "weights", "offset": -8, "length": 8},
        "huge": {"location": "weights", "offset": 0, "length": 1 << 50},
        "number": {"location": "weights", "offset": "0x10"},
    }
    for name, place in places.items():
        yield save(folder / f"onnx-{name}.onnx", helper.make_model(graph(weight(**place))))
    parts = [weight(location="weights", offset=offset, length=12) for offset in (0, 4)]
    yield save(folder / "onnx-overlap.onnx", helper.make_model(graph(*parts)))
    same = [weight(location="weights", offset=0, length=16)] * 1000
    yield save(folder / "onnx-same.onnx", helper.make_model(graph(*same)))
    elsewhere = weight(location="/etc/passwd")
    inner = helper.make_node("If", ["w"], ["out"], then_branch=graph(elsewhere), else_branch=graph())
    yield save(folder / "onnx-inner.onnx", helper.make_model(graph(node=inner)))
    constant = helper.make_node("Constant", [], ["out"], value=elsewhere)
    yield save(folder / "onnx-constant.onnx", helper.make_model(graph(node=constant)))
    function = helper.make_function("mine", "F", [], ["out"], [constant], [helper.make_opsetid("", 17)])
    call = helper.make_node("F", [], ["out"], domain="mine")
    yield save(folder / "onnx-function.onnx", helper.make_model(graph(node=call), functions=[function]))
    sparse = helper.make_model(graph())
    sparse.graph.sparse_initializer.add(values=elsewhere)
    yield save(folder / "onnx-sparse.onnx", sparse)
    for domain, name in (("mine", "Run"), ("com.microsoft", "EPContext"), ("com.microsoft", "PythonOp")):
        node = helper.make_node(name, ["w"], ["out"], domain=domain)
        yield save(folder / f"onnx-{name}.onnx", helper.make_model(graph(node=node)))
