"""Tests of choosing the front end for a network."""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.core import TensorType
from passsearch.errors import EnvironmentFault, UserError
from passsearch.frontends import resolve
from passsearch.frontends.request import ModelRequest
from passsearch.frontends.zoo import build


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
    stat = first.path.stat()
    assert resolve("zoo:resnet_tiny@2", folder=folder) == first
    assert (first.path.stat().st_ino, first.path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
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


def test_the_batch_of_a_built_in_network_has_two_spellings(tmp_path):
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
        ("zoo:resnet_tiny@99999999999999999999", None, "Batch size must be 9223372036854775807 or less"),
    ],
)
def test_an_invalid_built_in_network_is_refused(tmp_path, text, batch, message):
    with pytest.raises(UserError, match=message) as refusal:
        resolve(text, batch=batch, folder=tmp_path)
    assert "\n" not in str(refusal.value)
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
    inputs = {"x": TensorType((2, 3), "float32")}
    first = resolve(dynamic_model(), inputs=inputs, folder=tmp_path)
    assert resolve(dynamic_model(), inputs=inputs, folder=tmp_path) == first
    assert first.path.name.startswith("tiny_net-")
    assert (first.name, first.inputs) == ("tiny net", inputs)
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


def test_sizes_of_a_compiler_module_go_to_the_compiler(tmp_path):
    types = {"x": TensorType((1,), "float32")}
    model = resolve(write_ir(tmp_path / "module.json"), folder=tmp_path, inputs=types, batch=1)
    assert (model.inputs, model.batch) == (types, 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("net.pth", b"x", "holds weights without their network, by its name; export it as ONNX"),
        ("net.xyz", b"x", "has an unknown file type; export it as ONNX .* Accepted: .onnx"),
        ("net.onnx", b"", "is empty"),
        ("net.tflite", b"", "is empty"),
        ("net.onnx", b"no protobuf at all", "Cannot read .* as ONNX"),
        ("net.onnx", b"\x08\x08\x3a\x7f\x0a", "ends too early or is no such file: copy it again"),
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
    with pytest.raises(UserError, match=message) as refusal:
        resolve(str(tmp_path / name), folder=tmp_path / "kept")
    assert "\n" not in str(refusal.value)
    assert files(tmp_path / "kept") == []


def test_a_folder_with_networks_in_it_names_one(tmp_path):
    for name in ("page.onnx", "other.onnx"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UserError, match=r"did you mean `.*/other.onnx`\? There is 1 other network in it"):
        resolve(tmp_path, folder=tmp_path)


def test_folders_and_missing_paths_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"is a folder with none of saved_model.pb, config.json in it; export it as"):
        resolve(tmp_path, folder=tmp_path)
    with pytest.raises(UserError, match=r"No such file: `gone.onnx`"):
        resolve("gone.onnx", folder=tmp_path)
    with pytest.raises(UserError, match=r"No such file: `resnet18`. The built-in network of this name is zoo:resnet18"):
        resolve("resnet18", folder=tmp_path)
    with pytest.raises(UserError, match=r"No such file: `~nobody-here/net.onnx`"):
        resolve("~nobody-here/net.onnx", folder=tmp_path)
    with pytest.raises(UserError, match=r"cannot be opened: File name too long"):
        resolve("x" * 300, folder=tmp_path)


@pytest.mark.parametrize("ending", [".onnx", ".pt", ".pt2", ".pb"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, ending):
    os.mkfifo(tmp_path / f"net{ending}")
    with pytest.raises(UserError, match="neither a file nor a folder"):
        resolve(tmp_path / f"net{ending}", folder=tmp_path)


def test_a_network_that_declares_no_inputs_takes_complete_ones_only(tmp_path):
    request = ModelRequest("net.pt", {}, None, tmp_path)
    with pytest.raises(UserError, match="TorchScript does not declare its inputs; give each in order"):
        request.complete_inputs("TorchScript")
    sized = replace(request, inputs={"x": TensorType((1, 8), "")})
    with pytest.raises(UserError, match="does not declare the dtype of `x`; add --input x:float32"):
        sized.complete_inputs("TorchScript")


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("net.keras", "tensorflow", "tensorflow"),
        ("net.h5", "tensorflow", "tensorflow"),
        ("net.pt2", "torch", "torch"),
        ("config.json", "transformers", "transformers"),
    ],
)
def test_a_missing_framework_is_named_with_its_install_command(tmp_path, monkeypatch, name, missing, extra):
    for module in ("torch_module", "keras_model", "transformers_model"):
        monkeypatch.delitem(sys.modules, f"passsearch.frontends.{module}", raising=False)
    for framework in ("tensorflow", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, framework, None)
    if missing == "transformers":
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    (tmp_path / name).write_text("{}")
    path = tmp_path if name == "config.json" else tmp_path / name
    expected = rf"needs {missing}, which does not import here .*pip install -e '..{extra}.' in a .*, or export"
    with pytest.raises(UserError, match=expected) as refusal:
        resolve(path, folder=tmp_path / "kept")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("model", "type_name"),
    [
        (3, "int"),
        (None, "NoneType"),
        ((1, "a"), r"\(int, str\)"),
        (helper.make_opsetid("", 13), "OperatorSet"),
    ],
)
def test_objects_that_are_no_network_are_refused(tmp_path, model, type_name):
    with pytest.raises(
        UserError, match=f"`.*{type_name}.*` is no network; accepted: .*onnx.ModelProto.*IRModule"
    ) as refusal:
        resolve(model, folder=tmp_path)
    assert "\n" not in str(refusal.value)


def test_example_inputs_go_with_networks_that_are_traced(tmp_path):
    onnx.save(dynamic_model(), str(tmp_path / "net.onnx"))
    for model in ("zoo:resnet_tiny", tmp_path / "net.onnx", dynamic_model()):
        with pytest.raises(UserError, match=r"Example inputs go with torch modules and gluon blocks only"):
            resolve(model, example_inputs=(1,), folder=tmp_path)


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EnvironmentFault, match="Cannot write to"):
        resolve(dynamic_model(), batch=1, folder=tmp_path / "file" / "kept")


def test_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        resolve("zoo:resnet_tiny", folder=tmp_path)
    assert files(tmp_path) == []


def test_importing_the_front_ends_loads_no_framework(run_program):
    run_program("loaded_modules.py")


@pytest.mark.toolchain
def test_an_in_memory_module_is_saved_and_loads_again(run_program, relay_python):
    run_program("relay_module.py", python=relay_python, search_path=[])
