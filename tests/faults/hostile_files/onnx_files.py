"""ONNX files with operators of other domains, and with weights in other places than they say."""

from collections.abc import Iterator
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from hostile_files.wire import field, number


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
    yield from _numbers(folder)
    functions = [
        helper.make_function("mine", f"F{level}", ["a"], ["b"], _twice(level), [helper.make_opsetid("mine", 1)])
        for level in range(40)
    ]
    call = helper.make_node("F39", ["w"], ["out"], domain="mine")
    yield save(folder / "onnx-functions.onnx", helper.make_model(graph(node=call), functions=functions))
    own = helper.make_function("com.microsoft", "EPContext", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [])
    call = helper.make_node("EPContext", ["w"], ["out"], domain="com.microsoft")
    yield save(folder / "onnx-own.onnx", helper.make_model(graph(node=call), functions=[own]))
    for domain, name in (("mine", "Run"), ("com.microsoft", "EPContext"), ("com.microsoft", "PythonOp")):
        node = helper.make_node(name, ["w"], ["out"], domain=domain)
        yield save(folder / f"onnx-{name}.onnx", helper.make_model(graph(node=node)))


def _twice(level: int) -> list[NodeProto]:
    """Return the operators of a function that calls the one below it twice."""
    if not level:
        return [helper.make_node("Relu", ["a"], ["b"])]
    name = f"F{level - 1}"
    return [helper.make_node(name, ["a"], ["c"], domain="mine"), helper.make_node(name, ["c"], ["b"], domain="mine")]


def _numbers(folder: Path) -> Iterator[Path]:
    """Write models whose weights are in another file only for readers that cut numbers or take the last field."""
    elsewhere = weight(location="/etc/passwd")
    elsewhere.ClearField("data_location")
    tensor = elsewhere.SerializeToString()
    kinds = {"location": field(14, 1 + (1 << 32)), "tag": number((14 + (1 << 29)) << 3) + number(1)}
    for name, kind in kinds.items():
        yield _with_tensor(folder / f"onnx-cut-{name}.onnx", tensor + kind)
    key = field(1, "location") + field(2, "weights")
    other = field(1, "note") + field(1, "location") + field(2, "/etc/passwd")
    entries = field(13, key) + field(13, other) + field(14, 1)
    yield _with_tensor(folder / "onnx-key-twice.onnx", field(1, 4) + field(2, 1) + field(8, "w") + entries)
    open_ended = [weight(location="weights", offset=offset) for offset in range(8)] * 1000
    yield save(folder / "onnx-no-length.onnx", helper.make_model(graph(*open_ended)))


def _with_tensor(path: Path, tensor: bytes) -> Path:
    model = helper.make_model(graph())
    save(path, model)
    content = model.graph.SerializeToString() + field(5, tensor)
    path.write_bytes(field(1, 8) + field(7, content))
    return path
