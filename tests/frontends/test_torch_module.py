"""Tests of PyTorch modules as files."""

import sys
import warnings

import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from passsearch.core import TensorType
from passsearch.errors import UserError
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
    """A decomposition that opset 13 has no operator for."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.linalg.qr(self.linear(x))[0]


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


def test_the_file_computes_what_the_module_infers(tmp_path):
    module, example = Masked(), torch.randn(2, 4)
    file = resolve(module, example_inputs=example, folder=tmp_path)
    (output,) = ReferenceEvaluator(str(file.path)).run(None, {"x": example.numpy()})
    expected = module.eval()(example)["out"].detach().numpy()
    assert output == pytest.approx(expected, abs=1e-5)


def test_the_module_is_left_as_it_was_and_nothing_is_warned_of(tmp_path):
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


@pytest.mark.parametrize("by_name", [False, True])
def test_what_onnx_cannot_say_becomes_torchscript(tmp_path, by_name, capfd):
    example = {"x": torch.ones(4, 4)} if by_name else torch.ones(4, 4)
    module = Orthogonal()
    file = resolve(module, example_inputs=example, folder=tmp_path)
    assert (file.format, file.path.suffix) == ("torchscript", ".pt")
    assert dict(file.inputs) == {"x": float32(4, 4)}
    assert capfd.readouterr().out == ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.load(str(file.path))
    torch.testing.assert_close(script(torch.ones(4, 4)), module(torch.ones(4, 4)))
    typed = resolve(file.path, inputs=file.inputs, folder=tmp_path)
    assert typed.to_request() == file.to_request()


def test_a_scripted_module_is_a_module(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(torch.nn.Linear(4, 3))
    file = resolve(script, example_inputs=torch.ones(2, 4), folder=tmp_path)
    assert file.name == "Linear"
    assert graph_inputs(file) == ["input"]


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
def test_what_cannot_be_exported_is_refused_and_leaves_nothing(tmp_path, example, options, message):
    module = Masked()
    with pytest.raises(UserError, match=message) as caught:
        resolve(module, example_inputs=example(), folder=tmp_path, **options)
    assert "\n" not in str(caught.value)
    assert module.training
    assert [path for path in tmp_path.iterdir() if path.suffix != ".onnx"] == []


def test_torchscript_inputs_are_held_to_the_example(tmp_path):
    module, example = Orthogonal(), torch.ones(4, 4)
    with pytest.raises(UserError, match=r"`x:float32.1,4.` contradicts the example inputs .x:float32.4,4.."):
        resolve(module, example_inputs=example, inputs={"x": float32(1, 4)}, folder=tmp_path)
    with pytest.raises(UserError, match="Batch 2 does not fit the inputs"):
        resolve(module, example_inputs=example, batch=2, folder=tmp_path)


def test_a_checkpoint_is_not_torchscript(tmp_path):
    torch.save(Masked().state_dict(), tmp_path / "weights.pt")
    with pytest.raises(UserError, match=r"is not TorchScript; save torch.jit.trace"):
        resolve(tmp_path / "weights.pt", folder=tmp_path / "kept")


def test_a_path_does_not_load_torch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    resolve("zoo:resnet_tiny", folder=tmp_path)
