"""Networks of other frameworks, imported by a process of their own."""

import importlib.metadata
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from onnx import TensorProto, helper

import passsearch
from passsearch.api.common import open_evaluator
from passsearch.core import Candidate, Pipeline, TensorType
from passsearch.dialects import dialect
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Built, WorkerLimits, model_import, open_session
from passsearch.evaluate.model_import import import_digest, loadable_model
from passsearch.frontends import ModelFile, digest_files, resolve
from passsearch.objectives import parse_objective
from passsearch.search import Run, RunOptions
from passsearch.toolchain import Toolchain

DATA = TensorType((2, 8, 8, 3), "float32")
NETWORKS = {
    "saved_model": ("tensorflow", {"batch": 2}),
    "frozen_graph": ("tensorflow", {"batch": 2}),
    "mxnet_symbol": ("mxnet", {"inputs": {"data": DATA}}),
    "torchscript": ("torch", {"inputs": {"image": DATA}}),
}
"""Framework, and what of the inputs the file does not say, by the function that makes the network."""

MAKE = Path(__file__).parents[1] / "data" / "make_tflite.py"


def tflite(toolchain: Toolchain, folder: Path, operator: str, *, batch: int | None = 2) -> ModelFile:
    file = folder / f"{operator.lower()}.tflite"
    subprocess.run([str(toolchain.python), str(MAKE), str(file), operator], check=True, capture_output=True)
    return ModelFile(file, "tflite", file.stem, str(file), digest_files([file]), batch=batch)


def bring_in(model: ModelFile, toolchain: Toolchain, folder: Path) -> ModelFile:
    session = open_session(model, toolchain=toolchain.name, target=None, limits=WorkerLimits(120.0))
    return loadable_model(session, folder / "models")


def test_a_network_is_imported_once_and_is_the_compilers_own_from_then_on(relay: Toolchain, tmp_path: Path) -> None:
    model = tflite(relay, tmp_path, "RELU")
    first = bring_in(model, relay, tmp_path)
    assert (first.format, first.name, first.source, first.sha256) == ("ir", "relu", model.source, model.sha256)
    written = first.path.stat().st_mtime_ns
    assert bring_in(model, relay, tmp_path) == first
    assert first.path.stat().st_mtime_ns == written
    assert bring_in(tflite(relay, tmp_path, "RELU", batch=3), relay, tmp_path).path != first.path
    assert sorted(path.name for path in (tmp_path / "models").iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_imported_network_that_was_damaged_is_imported_again(relay: Toolchain, tmp_path: Path, share: float) -> None:
    model = tflite(relay, tmp_path, "RELU")
    first = bring_in(model, relay, tmp_path)
    content = first.path.read_bytes()
    first.path.write_bytes(content[: int(share * len(content))])
    assert bring_in(model, relay, tmp_path) == first
    assert first.path.read_bytes() == content
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["import.log", first.path.parent.name]


def test_another_batch_is_another_run(relay: Toolchain, tmp_path: Path) -> None:
    runs = []
    for batch in (2, 3):
        session = open_session(tflite(relay, tmp_path, "RELU", batch=batch), toolchain=relay.name, target=None)
        runs.append(Run(session, RunOptions((parse_objective("throughput"),), 1)))
    assert runs[0].default_folder(tmp_path) != runs[1].default_folder(tmp_path)
    assert runs[0].session.cache_path != runs[1].session.cache_path


def test_an_open_batch_is_asked_for(relay: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Input `x:float32\[\?,4\]` has open dimensions; .* --input x:float32\[1,4\]"):
        bring_in(tflite(relay, tmp_path, "RELU", batch=None), relay, tmp_path)


def test_an_operator_that_tvm_lacks_is_named(relay: Toolchain, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"importer of tflite has no operator `HASHTABLE_LOOKUP`.*toolchain add"):
        bring_in(tflite(relay, tmp_path, "HASHTABLE_LOOKUP"), relay, tmp_path)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["import.log"]


def test_a_network_that_is_refused_is_imported_in_its_other_format(
    relay: Toolchain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused = tflite(relay, tmp_path, "HASHTABLE_LOOKUP")
    taken = replace(refused, otherwise=lambda: tflite(relay, tmp_path, "RELU"))
    assert bring_in(taken, relay, tmp_path) == bring_in(tflite(relay, tmp_path, "RELU"), relay, tmp_path)
    assert "no operator `HASHTABLE_LOOKUP`" in caplog.text
    assert "It is imported as tflite instead." in caplog.text
    with pytest.raises(UserError, match=r"no operator `HASHTABLE_LOOKUP`.*as a file of PyTorch: .*`HASHTABLE") as both:
        bring_in(replace(refused, otherwise=lambda: refused), relay, tmp_path)
    assert "\n" not in str(both.value)


def test_a_network_that_another_simplifier_wrote_is_another_network(
    relax: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = resolve("zoo:resnet_tiny", folder=tmp_path)
    session = open_session(model, toolchain=relax.name, target=None)
    run = Run(session, RunOptions((parse_objective("throughput"),), 1))
    before = import_digest(session), session.cache_path, run.default_folder(tmp_path)
    monkeypatch.setattr(importlib.metadata.Distribution, "version", "0.0.1")
    after = import_digest(session), session.cache_path, run.default_folder(tmp_path)
    assert not set(before) & set(after)


def test_a_toolchain_without_the_framework_says_how_to_get_it(relay: Toolchain, tmp_path: Path) -> None:
    has = subprocess.run([str(relay.python), "-c", "import mxnet"], capture_output=True, check=False)
    if has.returncode == 0:
        pytest.skip("this toolchain has MXNet")
    file = tmp_path / "net-symbol.json"
    file.write_text("{}")
    model = ModelFile(file, "mxnet", "net", str(file), "0", {"data": DATA})
    with pytest.raises(UserError, match=r"cannot import `mxnet` .* passsearch toolchain install \S+ --with mxnet"):
        bring_in(model, relay, tmp_path)


@pytest.mark.parametrize("kind", NETWORKS)
def test_outputs_are_those_of_the_framework(kind: str, relay: Toolchain, tmp_path: Path) -> None:
    framework, said = NETWORKS[kind]
    script = [str(relay.python), str(MAKE.with_name("framework_networks.py"))]
    if subprocess.run([str(relay.python), "-c", f"import {framework}"], capture_output=True, check=False).returncode:
        pytest.skip(f"this toolchain has no {framework}; see: passsearch toolchain install --help")
    made = subprocess.run([*script, "make", kind, str(tmp_path)], capture_output=True, text=True, check=True)
    file = tmp_path / json.loads(made.stdout.splitlines()[-1])["path"]
    ir = bring_in(resolve(file, folder=tmp_path, **said), relay, tmp_path).path
    told = subprocess.run([*script, "check", str(tmp_path), str(ir)], capture_output=True, text=True, check=True)
    found = json.loads(told.stdout.splitlines()[-1])
    assert found["input"] == ("data" if kind == "mxnet_symbol" else "image")
    assert found["deviation"] < 1e-5


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_framework_of_a_file_proves_its_import(kind: str, relay: Toolchain, tmp_path: Path) -> None:
    framework, said = NETWORKS[kind]
    script = [str(relay.python), str(MAKE.with_name("framework_networks.py"))]
    if subprocess.run([str(relay.python), "-c", f"import {framework}"], capture_output=True, check=False).returncode:
        pytest.skip(f"this toolchain has no {framework}; see: passsearch toolchain install --help")
    made = subprocess.run([*script, "make", kind, str(tmp_path)], capture_output=True, text=True, check=True)
    file = resolve(tmp_path / json.loads(made.stdout.splitlines()[-1])["path"], folder=tmp_path, **said)
    session = open_session(file, toolchain=relay.name, target=None, limits=WorkerLimits(120.0))
    with open_evaluator(session, folder=tmp_path / "run", remember=False) as evaluator:
        built = evaluator.build_candidate(Candidate(Pipeline(())))
        source = evaluator.builder.source
    assert isinstance(built, Built), built
    assert source.runtime.lower().startswith(framework.replace("torch", "pytorch"))
    assert source.reason == ""


SCRIPT = """
import sys, torch
class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
    def forward(self, x):
        self.count.add_(1)
        return x + self.count
torch.jit.trace(Counting(), torch.zeros(2, 3), check_trace=False).save(sys.argv[1])
"""


def test_a_torchscript_file_that_writes_a_buffer_is_refused_by_its_name(relay: Toolchain, tmp_path: Path) -> None:
    file = tmp_path / "counting.pt"
    if subprocess.run([str(relay.python), "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("this toolchain has no torch; see: passsearch toolchain install --help")
    subprocess.run([str(relay.python), "-c", SCRIPT, str(file)], capture_output=True, check=True)
    model = resolve(file, folder=tmp_path, inputs={"x": TensorType((2, 3), "float32")})
    with pytest.raises(UserError, match=r"Cannot import `counting.pt`: it writes `count` when it runs, and"):
        bring_in(model, relay, tmp_path)


def test_an_onnx_operator_that_tvm_lacks_is_named(relay: Toolchain, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Det", ["x"], ["d"]), helper.make_node("StringConcat", ["d", "d"], ["y"])]
    ends = [value("x", TensorProto.FLOAT, [2, 2])], [value("y", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "graph", *ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "x.onnx")
    with pytest.raises(UserError, match=r"importer of onnx has no operator `Det` and 1 more \(StringConcat\)"):
        passsearch.analyze(tmp_path / "x.onnx", toolchain=relay.name)


def test_a_refusal_names_the_file_of_the_user(relay: Toolchain, tmp_path: Path) -> None:
    value, node = helper.make_tensor_value_info, helper.make_node
    nodes = [node("Shape", ["x"], ["s"]), node("Cast", ["s"], ["f"], to=TensorProto.FLOAT)]
    nodes += [node("Mul", ["x", "f"], ["m"]), node("Det", ["m"], ["y"])]
    ends = [value("x", TensorProto.FLOAT, [2, 2])], [value("y", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "graph", *ends)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "x.onnx")
    with pytest.raises(UserError, match=r"^Cannot import `x.onnx`: TVM's importer of onnx has no operator `Det`"):
        passsearch.analyze(tmp_path / "x.onnx", toolchain=relay.name)


def test_what_onnx_has_no_word_for_enters_as_an_exported_program(relax: Toolchain, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Sinh(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, image: object, scale: object) -> object:
            return {"out": torch.sinh(self.linear(image)) * scale}

    example = (torch.randn(2, 8), torch.randn(2, 8))
    formats = dialect(relax.dialect).formats
    model = resolve(Sinh(), example_inputs=example, folder=tmp_path, formats=formats)
    assert (model.format, model.path.suffix, list(model.inputs)) == ("exported", ".pt2", ["image", "scale"])
    if subprocess.run([str(relax.python), "-c", "import torch"], capture_output=True).returncode:
        with pytest.raises(UserError, match="toolchain install relax --with torch"):
            bring_in(model, relax, tmp_path)
        pytest.skip("the toolchain has no torch")
    assert bring_in(model, relax, tmp_path).format == "ir"


def test_a_format_the_toolchain_does_not_import_is_refused(relax: Toolchain, tmp_path: Path) -> None:
    model = tflite_file(tmp_path)
    with pytest.raises(UserError, match=r"is tflite, and toolchain `\w+` \(relax\) imports exported, ir, onnx"):
        open_session(model, toolchain=relax.name, target=None)


def tflite_file(folder: Path) -> ModelFile:
    file = folder / "network.tflite"
    file.write_bytes(b"unread")
    return ModelFile(file, "tflite", file.stem, str(file), digest_files([file]))


def test_a_full_disk_during_the_second_import_is_no_mistake_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> ModelFile:
        raise UserError("Cannot import `net.onnx`: no operator `Loop`.")

    def fill_disk() -> ModelFile:
        raise EnvironmentFault("Cannot write the file; make room and try again.")

    monkeypatch.setattr(model_import, "_imported", refuse)
    model = ModelFile(tmp_path / "net.onnx", "onnx", "net", "net.onnx", "0", otherwise=fill_disk)
    with pytest.raises(EnvironmentFault, match="make room"):
        loadable_model(SimpleNamespace(model=model), tmp_path)  # type: ignore[arg-type]
