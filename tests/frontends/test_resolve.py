"""Tests of finding the file behind whatever a user calls a network."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.core import TensorType
from passsearch.errors import EnvironmentFault, UserError
from passsearch.frontends import resolve
from passsearch.frontends.zoo import build

ROOT = Path(__file__).parents[2]


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def dynamic_model():
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in ("x", "y")]
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "tiny net", values[:1], values[1:])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def write_ir(path, *, root="root"):
    path.write_text(json.dumps({root: 1, "nodes": [{"type_key": ""}]}))
    return path


def test_a_built_in_network_is_built_once(tmp_path):
    folder = tmp_path / "new" / "kept"
    first = resolve("zoo:resnet_tiny@2", folder=folder)
    made = first.path.stat()
    assert resolve("zoo:resnet_tiny@2", folder=folder) == first
    assert (first.path.stat().st_ino, first.path.stat().st_mtime_ns) == (made.st_ino, made.st_mtime_ns)
    assert (first.name, first.source, first.format, first.toolchain) == (
        "resnet_tiny",
        "zoo:resnet_tiny@2",
        "onnx",
        None,
    )
    assert first.path.read_bytes() == build("resnet_tiny", batch=2).SerializeToString()
    assert first.sha256 == hashlib.sha256(first.path.read_bytes()).hexdigest()
    assert first.to_request() == {"path": str(first.path), "format": "onnx", "inputs": {}, "batch": None}
    assert files(folder) == [first.path.name]


def test_the_batch_of_a_built_in_network_can_be_given_either_way(tmp_path):
    assert resolve("zoo:resnet_tiny", batch=2, folder=tmp_path).sha256 == (
        resolve("zoo:resnet_tiny@2", folder=tmp_path).sha256
    )
    assert resolve("zoo:resnet_tiny@1", folder=tmp_path).path == resolve("zoo:resnet_tiny", folder=tmp_path).path


@pytest.mark.parametrize(
    ("text", "batch", "message"),
    [
        ("zoo:resnet17", None, "Unknown network `resnet17`; did you mean"),
        ("zoo:resnet_tiny@x", None, "reads zoo:NAME.@batch.; got `zoo:resnet_tiny@x`"),
        ("zoo:resnet_tiny@0", None, "Batch size must be 1 or more, got 0"),
        ("zoo:resnet_tiny@2", 3, "`zoo:resnet_tiny@2` has batch 2, not 3"),
        ("zoo:resnet_tiny", 0, "Batch size must be 1 or more, got 0"),
    ],
)
def test_a_built_in_network_that_cannot_be_is_refused(tmp_path, text, batch, message):
    with pytest.raises(UserError, match=message) as caught:
        resolve(text, batch=batch, folder=tmp_path)
    assert "\n" not in str(caught.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize("convert", [str, Path])
def test_an_onnx_file_stays_where_it_is(tmp_path, monkeypatch, convert):
    onnx.save(dynamic_model(), str(tmp_path / "net.v2.onnx"))
    monkeypatch.chdir(tmp_path)
    file = resolve(convert("net.v2.onnx"), batch=4, folder=tmp_path / "kept")
    assert (file.path, file.name, file.source) == (tmp_path / "net.v2.onnx", "net.v2", "net.v2.onnx")
    assert file.to_request()["inputs"] == {"x": [[4, 3], "float32"]}
    assert files(tmp_path / "kept") == []


def test_an_onnx_object_becomes_a_file_named_by_content(tmp_path):
    given = {"x": TensorType((2, 3), "float32")}
    first = resolve(dynamic_model(), inputs=given, folder=tmp_path)
    assert resolve(dynamic_model(), inputs=given, folder=tmp_path) == first
    assert first.path.name.startswith("tiny_net-")
    assert (first.name, first.inputs) == ("tiny net", given)
    assert first.source.endswith(".ModelProto")
    assert len(files(tmp_path)) == 1


def test_external_weights_count_as_part_of_the_network(tmp_path):
    model = dynamic_model()
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2000, np.float32), "w"))
    path = tmp_path / "net.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="net.bin", size_threshold=0)
    before = resolve(path, batch=1, folder=tmp_path).sha256
    in_memory = onnx.load(str(path), load_external_data=False)
    with pytest.raises(UserError, match="keeps its weights in other files; give the path"):
        resolve(in_memory, batch=1, folder=tmp_path)
    (tmp_path / "net.bin").write_bytes(np.zeros(2000, np.float32).tobytes())
    assert resolve(path, batch=1, folder=tmp_path).sha256 != before
    (tmp_path / "net.bin").unlink()
    with pytest.raises(UserError, match=r"keeps weights in `net.bin`, which is missing"):
        resolve(path, batch=1, folder=tmp_path)


@pytest.mark.parametrize("root", ["root", "root_index"])
def test_a_compiler_module_is_read_with_its_parameters(tmp_path, root):
    path = write_ir(tmp_path / "module.json", root=root)
    alone = resolve(path, folder=tmp_path)
    (tmp_path / "module.params").write_bytes(b"weights")
    together = resolve(path, folder=tmp_path)
    assert (alone.format, alone.name, alone.toolchain) == ("ir", "module", None)
    assert alone.sha256 != together.sha256


@pytest.mark.parametrize("options", [{"batch": 1}, {"inputs": {"x": TensorType((1,), "float32")}}])
def test_a_compiler_module_fixes_its_inputs(tmp_path, options):
    with pytest.raises(UserError, match="fixes its own inputs; leave"):
        resolve(write_ir(tmp_path / "module.json"), folder=tmp_path, **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.pth", b"x", "holds weights without their network, by its name; export it as ONNX"),
        ("net.xyz", b"x", "is of no known kind; export it as ONNX .* Accepted: .onnx"),
        ("net.onnx", b"", "is empty"),
        ("net.tflite", b"", "is empty"),
        ("net.onnx", b"no protobuf at all", "Cannot read .* as ONNX"),
        ("net.json", b"{broken", "Cannot read .* as a compiler module"),
        ("net.json", b"\xff\xfe\xff", "Cannot read .* as a compiler module"),
        (
            "net.json",
            b'{"nodes": [], "heads": []}',
            "holds no compiler module; save one with tvm.ir.save_json",
        ),
        ("net.pt", b"PK nothing", "is not TorchScript; save torch.jit.trace"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        resolve(str(tmp_path / name), folder=tmp_path / "kept")
    assert "\n" not in str(caught.value)
    assert files(tmp_path / "kept") == []


def test_folders_and_missing_paths_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"is a folder with none of saved_model.pb, config.json in it; export it as"):
        resolve(tmp_path, folder=tmp_path)
    with pytest.raises(UserError, match=r"No such file: `gone.onnx`"):
        resolve("gone.onnx", folder=tmp_path)
    with pytest.raises(UserError, match=r"No such file: `resnet18`. A built-in network is zoo:resnet18"):
        resolve("resnet18", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("net.keras", "tensorflow", "tensorflow"),
        ("net.h5", "tensorflow", "tensorflow"),
        ("net.pt2", "torch", "torch"),
        ("config.json", "transformers", "transformers"),
    ],
)
def test_a_framework_that_is_missing_is_named_with_the_way_to_get_it(tmp_path, monkeypatch, name, missing, extra):
    for module in ("torch_module", "keras_model", "transformers_model"):
        monkeypatch.delitem(sys.modules, f"passsearch.frontends.{module}", raising=False)
    for framework in ("tensorflow", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, framework, None)
    if missing == "transformers":
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    (tmp_path / name).write_text("{}")
    path = tmp_path if name == "config.json" else tmp_path / name
    wanted = rf"needs {missing}, which does not import here .*pip install 'passsearch.{extra}.', or export"
    with pytest.raises(UserError, match=wanted) as caught:
        resolve(path, folder=tmp_path / "kept")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (3, "int"),
        (None, "NoneType"),
        ((1, "a"), r"\(int, str\)"),
        (helper.make_opsetid("", 13), "OperatorSet"),
    ],
)
def test_objects_that_are_no_network_are_refused(tmp_path, model, named):
    with pytest.raises(
        UserError, match=f"`.*{named}.*` is no network; accepted: .*onnx.ModelProto.*IRModule"
    ) as caught:
        resolve(model, folder=tmp_path)
    assert "\n" not in str(caught.value)


def test_example_inputs_go_with_what_is_run_on_them(tmp_path):
    onnx.save(dynamic_model(), str(tmp_path / "net.onnx"))
    for model in ("zoo:resnet_tiny", tmp_path / "net.onnx", dynamic_model()):
        with pytest.raises(UserError, match=r"Example inputs go with torch modules and gluon blocks only"):
            resolve(model, example_inputs=(1,), folder=tmp_path)


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="Cannot write to"):
        resolve(dynamic_model(), batch=1, folder=tmp_path / "file" / "kept")


def test_an_interrupted_build_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("passsearch.frontends.zoo.build", interrupt)
    with pytest.raises(KeyboardInterrupt):
        resolve("zoo:resnet_tiny", folder=tmp_path)
    assert files(tmp_path) == []


def test_importing_the_room_loads_no_framework():
    program = (
        "import sys, passsearch.frontends;"
        "heavy = {'torch', 'tensorflow', 'mxnet', 'transformers', 'onnx', 'tvm', 'numpy', 'yaml', 'platformdirs'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run(sys.executable, program).strip() == "[]"


IN_MEMORY_MODULE = """
import sys
from pathlib import Path
import numpy as np
import tvm
from tvm import relay
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.importer import load
from passsearch.errors import UserError
from passsearch.frontends import resolve

folder = Path(sys.argv[1])
x, w = relay.var("x", shape=(1, 8)), relay.var("w", shape=(4, 8))
function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
module = tvm.IRModule.from_expr(function)
weights = {"w": np.full((4, 8), 0.5, "float32")}
on_device = {name: tvm.nd.array(value) for name, value in weights.items()}

def inputs(file):
    assert (file.format, file.toolchain) == ("ir", "this"), file
    return [var.name_hint for var in load(ModelSource(file.path, file.format, file.inputs))["main"].params]

assert inputs(resolve(module, folder=folder)) == ["x", "w"]
assert inputs(resolve(function, folder=folder)) == ["x", "w"]
bound = resolve((module, weights), folder=folder)
assert inputs(bound) == ["x"]
assert resolve((module, on_device), folder=folder).sha256 == bound.sha256
typed = resolve(str(bound.path), folder=folder)
assert (typed.sha256, typed.toolchain) == (bound.sha256, None)
for wrong in (on_device["w"], (module, 3), (module, weights, 3)):
    try:
        resolve(wrong, folder=folder)
    except UserError as error:
        print(error)
print(sorted(path.suffix for path in folder.iterdir()))
"""


@pytest.mark.toolchain
def test_an_in_memory_module_is_saved_and_loads_again(tmp_path, relay_python):
    said = run(relay_python, IN_MEMORY_MODULE, tmp_path)
    assert "got `NDArray`; give a tvm.IRModule" in said
    assert "Parameters are arrays by name, got `int`" in said
    assert "got `tuple`; give a tvm.IRModule" in said
    assert said.strip().endswith("['.json', '.json', '.params']")


def run(python, program, *arguments):
    return subprocess.run(
        [str(python), "-c", program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
