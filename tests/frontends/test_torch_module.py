"""Tests of PyTorch modules as files."""

import io
import os
import re
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from passsearch.core import TensorType
from passsearch.errors import EnvironmentFault, UserError
from passsearch.frontends import resolve

torch = pytest.importorskip("torch")


class Masked(torch.nn.Module):
    """Two inputs, a default argument between them, a dropout and an output by name."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout()

    def forward(self, x, scale=None, mask=None):
        y = self.dropout(self.linear(x))
        y = y if scale is None else y * scale
        return {"out": y if mask is None else y * mask}


class Orthogonal(torch.nn.Module):
    """A decomposition without an ONNX operator."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.qr(self.linear(x))[0]


class Several(Orthogonal):
    """Returns a mapping, and computes differently in training."""

    def __init__(self):
        super().__init__()
        self.dropout = torch.nn.Dropout()

    def forward(self, x):
        return {"q": super().forward(self.dropout(x)), "more": [x, None]}


class Attending(torch.nn.Module):
    """A layer with fused attention that PyTorch can also run as one fused operator."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def float32(*shape):
    return TensorType(shape, "float32")


def graph_inputs(file):
    return [value.name for value in onnx.load(str(file.path)).graph.input]


@pytest.mark.parametrize(
    ("example", "names"),
    [
        (lambda: torch.ones(2, 4), ["x"]),
        (lambda: (torch.ones(2, 4), torch.ones(2, 3)), ["x", "scale"]),
        (lambda: {"mask": torch.ones(2, 3), "x": torch.ones(2, 4)}, ["x", "mask"]),
    ],
)
def test_inputs_keep_their_argument_names(tmp_path, example, names):
    file = resolve(Masked(), example_inputs=example(), folder=tmp_path)
    assert (file.format, file.name, file.path.suffix) == ("onnx", "Masked", ".onnx")
    assert graph_inputs(file) == names
    assert file.source.endswith(".Masked")
    assert file.toolchain is None


def test_the_file_computes_the_same_as_the_module(tmp_path):
    module, example = Masked(), torch.randn(2, 4)
    file = resolve(module, example_inputs=example, folder=tmp_path)
    (output,) = ReferenceEvaluator(str(file.path)).run(None, {"x": example.numpy()})
    expected = module.eval()(example)["out"].detach().numpy()
    assert output == pytest.approx(expected, abs=1e-5)


def test_the_module_is_not_changed_and_there_are_no_warnings(tmp_path):
    module = Masked()
    module.dropout.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(module, example_inputs=torch.ones(2, 4), folder=tmp_path)
    assert module.training
    assert module.linear.training
    assert not module.dropout.training
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("kind", [Masked, Orthogonal])
def test_the_same_module_gives_the_same_file(tmp_path, kind):
    torch.manual_seed(0)
    module = kind()
    first = resolve(module, example_inputs=torch.ones(4, 4), folder=tmp_path / "a")
    second = resolve(module, example_inputs=torch.ones(4, 4), folder=tmp_path / "b")
    other = resolve(kind(), example_inputs=torch.ones(4, 4), folder=tmp_path / "a")
    again = resolve(module, example_inputs=torch.ones(4, 4), folder=tmp_path / "a")
    assert first.path.name == second.path.name
    assert first.path.name != other.path.name
    assert again == first
    assert len(list((tmp_path / "a").iterdir())) == 2


def test_windows_of_any_axis_are_those_of_pytorch(tmp_path):
    class Windows(torch.nn.Module):
        def forward(self, x):
            return x.unfold(-2, 3, 2), x.unfold(1, 2, 1)

    data = torch.randn(2, 4, 7, 3)
    file = resolve(Windows(), example_inputs=data, folder=tmp_path)
    results = ReferenceEvaluator(str(file.path)).run(None, {"x": data.numpy()})
    assert all(map(np.array_equal, results, (each.numpy() for each in Windows()(data))))


def test_a_file_of_onnx_that_computes_something_else_is_not_taken(tmp_path):
    pytest.importorskip("onnxruntime")
    # PyTorch's exporter writes the logarithm of a sigmoid, which is zero.
    module, data = torch.nn.LogSigmoid(), torch.tensor([-150.0, 1.0])
    formats = frozenset({"onnx", "exported"})
    file = resolve(module, example_inputs=data, folder=tmp_path, formats=formats)
    assert file.format == "exported"
    assert torch.export.load(file.path).module()(data)[0] == -150
    assert file.live().run({"input": data.numpy()})[0][0] == -150
    assert resolve(module, example_inputs=data / 100, folder=tmp_path, formats=formats).format == "onnx"


@pytest.mark.parametrize("by_name", [False, True])
def test_a_module_without_onnx_form_becomes_torchscript(tmp_path, by_name, capfd):
    example = {"x": torch.ones(4, 4)} if by_name else torch.ones(4, 4)
    module = Orthogonal()
    file = resolve(module, example_inputs=example, folder=tmp_path)
    assert (file.format, file.path.suffix) == ("torchscript", ".pt")
    assert dict(file.inputs) == {"x": float32(4, 4)}
    assert capfd.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.load(str(file.path))
    torch.testing.assert_close(script(torch.ones(4, 4)), module(torch.ones(4, 4)))
    typed = resolve(file.path, inputs=file.inputs, folder=tmp_path)
    assert typed.to_request() == file.to_request()


def test_torchscript_returns_only_tensors_in_inference_mode(tmp_path):
    module, example = Several(), torch.randn(4, 4)
    file = resolve(module, example_inputs=example, folder=tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = torch.jit.load(str(file.path))(example)
    assert module.training
    for answer, expected in zip(answers, (Orthogonal.forward(module, example), example), strict=True):
        torch.testing.assert_close(answer, expected)


def test_attention_becomes_operators_that_compute_the_same(tmp_path):
    module, example = Attending(), torch.randn(2, 5, 8)
    file = resolve(module, example_inputs=example, folder=tmp_path)
    assert file.format == "onnx"
    (output,) = ReferenceEvaluator(str(file.path)).run(None, {"x": example.numpy()})
    assert output == pytest.approx(module.eval()(example).detach().numpy(), abs=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


def exported(module, *values, dynamic=None, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(module.eval(), values, named, dynamic_shapes=dynamic)


def test_an_exported_program_keeps_its_arguments(tmp_path):
    module, x, mask = Masked(), torch.randn(2, 4), torch.randn(2, 3)
    program = exported(module, x, mask=mask)
    file = resolve(program, folder=tmp_path)
    assert (file.format, file.name, graph_inputs(file)) == ("onnx", "program", ["x", "mask"])
    (output,) = ReferenceEvaluator(str(file.path)).run(None, {"x": x.numpy(), "mask": mask.numpy()})
    assert output == pytest.approx(module(x, mask=mask)["out"].detach().numpy(), abs=1e-5)
    torch.export.save(program, tmp_path / "net.v2.pt2")
    archive = resolve(tmp_path / "net.v2.pt2", batch=2, folder=tmp_path)
    assert (archive.name, archive.sha256) == ("net.v2", file.sha256)


def test_the_module_of_an_exported_program_still_refuses_eval(tmp_path):
    module = exported(Masked(), torch.ones(2, 4)).module()
    assert resolve(module, example_inputs=torch.ones(2, 4), folder=tmp_path).format == "onnx"
    with pytest.raises(NotImplementedError):
        module.eval()


def test_dynamic_dimensions_of_a_program_are_bound(tmp_path):
    size = torch.export.Dim("size")
    program = exported(Masked(), torch.ones(2, 4), torch.ones(2, 3), dynamic={"x": {0: size}, "scale": {0: size}})
    for options in ({"batch": 5}, {"inputs": {"scale": float32(5, 3)}}):
        file = resolve(program, folder=tmp_path, **options)
        shapes = [value.type.tensor_type.shape.dim[0].dim_value for value in onnx.load(str(file.path)).graph.input]
        assert shapes == [5, 5]
    with pytest.raises(UserError, match=r"Input `x:float32.+,4.` has open dimensions; give its sizes"):
        resolve(program, folder=tmp_path)
    with pytest.raises(UserError, match="Unknown input `y`; the inputs are: x:"):
        resolve(program, inputs={"y": float32(5, 4)}, folder=tmp_path)


def test_a_program_that_takes_more_than_tensors_is_refused(tmp_path):
    with pytest.raises(UserError, match="takes `2`, which is no tensor; export it with tensors only"):
        resolve(exported(Masked(), torch.ones(2, 4), 2), folder=tmp_path)


def test_a_file_without_an_exported_program_is_refused_in_one_line(tmp_path):
    (tmp_path / "net.pt2").write_bytes(b"no archive")
    with pytest.raises(
        UserError, match=r"Cannot read `.*net.pt2` as a torch.export archive .*torch.export.save"
    ) as refusal:
        resolve(tmp_path / "net.pt2", folder=tmp_path)
    assert "\n" not in str(refusal.value)


QUANTISE = """
import sys, torch, torch.ao.quantization.fx._decomposed
class Rounding(torch.nn.Module):
    def forward(self, x):
        steps = 0.5, 3, -128, 127, torch.int8
        x = torch.ops.quantized_decomposed.quantize_per_tensor(x, *steps)
        return torch.ops.quantized_decomposed.dequantize_per_tensor(x, *steps)
torch.export.save(torch.export.export(Rounding(), (torch.ones(2, 4),)), sys.argv[1])
"""


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """A program that another process wrote, so that this one does not have its operators."""
    path = tmp_path_factory.mktemp("quantised") / "net.pt2"
    subprocess.run([sys.executable, "-c", QUANTISE, str(path)], check=True, capture_output=True)
    return path


def test_a_program_that_pt2e_quantised_is_resolved(tmp_path, quantised):
    file = resolve(quantised, folder=tmp_path, formats=frozenset({"onnx", "exported"}))
    assert (file.format, dict(file.inputs)) == ("exported", {"x": float32(2, 4)})
    x = torch.tensor([[0.3, -0.3, 1.1, 100], [0, 0.6, -100, 9]])
    expected = [[0.5, -0.5, 1, 62], [0, 0.5, -65.5, 9]]
    assert torch.export.load(file.path).module()(x).tolist() == expected
    assert file.live().run({"x": x.numpy()})[0].tolist() == expected


def test_a_pytorch_without_the_operators_of_pt2e_is_the_reason(tmp_path, quantised, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.ao.quantization.fx._decomposed", None)
    with pytest.raises(EnvironmentFault, match=r"the installed PyTorch lacks its operators .*; install") as refusal:
        resolve(quantised, folder=tmp_path)
    assert "\n" not in str(refusal.value)


class Canary:
    """An object whose pickle makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def change(source, target, *, entry, new):
    """Copy an archive with another content of the entries whose names end like this."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as copy:
        for name in old.namelist():
            copy.writestr(name, new(old.read(name)) if name.endswith(entry) else old.read(name))
    return target


def test_an_archive_that_asks_for_pickle_is_loaded_with_trust_only(tmp_path):
    torch.export.save(exported(Masked(), torch.ones(2, 4)), tmp_path / "honest.pt2")
    assert resolve(tmp_path / "honest.pt2", folder=tmp_path).format == "onnx"
    pickled = io.BytesIO()
    torch.save(Canary(tmp_path / "canary"), pickled)
    path = change(tmp_path / "honest.pt2", tmp_path / "net.pt2", entry=".pt", new=lambda _: pickled.getvalue())
    with pytest.raises(UserError, match=r"could run code, .*: pickled Python: .*--trust"):
        resolve(path, folder=tmp_path)
    assert not (tmp_path / "canary").exists()
    with pytest.raises(UserError):  # what was loaded is no input of the network
        resolve(path, folder=tmp_path, trust=True)
    assert (tmp_path / "canary").exists()


def test_an_archive_with_python_in_a_size_is_refused(tmp_path):
    size = torch.export.Dim("size")
    program = exported(Masked(), torch.ones(2, 4), dynamic={"x": {0: size}})
    torch.export.save(program, tmp_path / "honest.pt2")
    assert resolve(tmp_path / "honest.pt2", batch=2, folder=tmp_path).format == "onnx"
    code = f"__import__('os').mkdir('{tmp_path / 'canary'}')"

    def insert(content):
        return re.sub(rb'"expr_str": "[^"]*"', f'"expr_str": "{code}"'.encode(), content)

    path = change(tmp_path / "honest.pt2", tmp_path / "net.pt2", entry=".json", new=insert)
    with pytest.raises(UserError, match=r"could run code, .*: Python in a size, .*--trust"):
        resolve(path, batch=2, folder=tmp_path)
    assert not (tmp_path / "canary").exists()


def test_a_scripted_module_is_a_module(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(torch.nn.Linear(4, 3))
    file = resolve(script, example_inputs=torch.ones(2, 4), folder=tmp_path)
    assert file.name == "Linear"
    assert graph_inputs(file) == ["input"]


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None, mask: torch.Tensor | None = None):
        x = x if scale is None else x * scale
        return x if mask is None else x + mask


def test_arguments_of_a_scripted_module_have_no_gap(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Scaled())
    ones = torch.ones(2, 4)
    with pytest.raises(UserError, match="`scale` is missing before `mask`"):
        resolve(script, example_inputs={"x": ones, "mask": ones}, folder=tmp_path)
    assert list(resolve(script, example_inputs={"x": ones, "scale": ones}, folder=tmp_path).inputs) == ["x", "scale"]


@pytest.mark.parametrize(
    ("example", "options", "message"),
    [
        (lambda: None, {}, "A torch module needs example inputs"),
        (lambda: (torch.ones(2, 4), 3), {}, "Example input `scale` is a `int`; give a tensor"),
        (lambda: {"y": torch.ones(2, 4)}, {}, "Unknown example input `y`; the arguments are: x, scale, mask"),
        (lambda: torch.ones(2, 5), {}, "Cannot trace `Masked` with these example inputs .*mat1 and mat2"),
        (lambda: torch.ones(2, 4), {"batch": 3}, "Batch 3 does not fit"),
        (lambda: torch.ones(2, 4), {"inputs": {"x": float32(1, 4)}}, "Dimension 0 is fixed"),
    ],
)
def test_a_failed_export_leaves_nothing(tmp_path, example, options, message):
    module = Masked()
    with pytest.raises(UserError, match=message) as refusal:
        resolve(module, example_inputs=example(), folder=tmp_path, **options)
    assert "\n" not in str(refusal.value)
    assert module.training
    assert [path for path in tmp_path.iterdir() if path.suffix != ".onnx"] == []


def test_torchscript_inputs_must_agree_with_the_example(tmp_path):
    module, example = Orthogonal(), torch.ones(4, 4)
    with pytest.raises(UserError, match=r"`x:float32.1,4.` contradicts the example inputs .x:float32.4,4.."):
        resolve(module, example_inputs=example, inputs={"x": float32(1, 4)}, folder=tmp_path)
    with pytest.raises(UserError, match="Batch 2 does not fit the inputs"):
        resolve(module, example_inputs=example, batch=2, folder=tmp_path)


def test_a_checkpoint_is_not_torchscript(tmp_path):
    torch.save(Masked().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(UserError, match=r"holds weights without their network; export it as ONNX"):
        resolve(tmp_path / "weights.pt", folder=tmp_path / "kept")


def test_a_path_does_not_load_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    resolve("zoo:resnet_tiny", folder=tmp_path)


class Restless(torch.nn.Module):
    """A layer behind a dropout that stays after ``eval()``."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.nn.functional.dropout(self.linear(x), training=True)


class Drawing(Restless):
    """Draws numbers on which its results do not depend."""

    def forward(self, x):
        return self.linear(x) + 0 * torch.rand(16)


def test_a_module_that_draws_random_numbers_is_refused_for_that(tmp_path):
    x = torch.ones(4, 16)
    with pytest.raises(UserError, match="`Restless` computes something else each time it runs"):
        resolve(Restless(), example_inputs=x, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert resolve(Drawing(), example_inputs=x, folder=tmp_path).path.exists()


def test_a_compiled_module_is_refused_by_its_cause(tmp_path):
    x, module = torch.ones(4, 16), torch.nn.Linear(16, 16)
    wrapped = torch.compile(module, backend="eager")
    with pytest.raises(UserError, match=r"`Linear` is wrapped by torch\.compile: give the module itself"):
        resolve(wrapped, example_inputs=x, folder=tmp_path)
    with pytest.raises(UserError, match=r"`Linear` in it, `0` is wrapped by torch\.compile"):
        resolve(torch.nn.Sequential(wrapped), example_inputs=x, folder=tmp_path)
    assert resolve(module, example_inputs=x, folder=tmp_path).path.exists()
    module.compile(backend="eager")
    with pytest.raises(UserError, match="`Linear` was compiled by its method `compile`"):
        resolve(module, example_inputs=x, folder=tmp_path)
