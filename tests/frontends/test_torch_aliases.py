"""Tests of modules that write through one view of a tensor and read another one."""

import warnings

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from passsearch.frontends import resolve

torch = pytest.importorskip("torch")


def flat(y):
    y.view(-1)[2:5].mul_(3)
    return y.t()


def transposed(y):
    y.t()[0].fill_(5)
    return y


def base(y):
    row = y[0]
    y.add_(1)
    return row * 1


def steps(y):
    y.reshape(-1)[1:6:2] = y[0, :3] * 2
    return y, y[0]


def diagonal(y):
    y[:, :2].diagonal().zero_()
    return y


def slices(y):
    y[:, 1:3] = 7
    y[0].add_(1)
    return y


def masked(y):
    y[y > 0] = -1
    return y


WRITES = (flat, transposed, base, steps, diagonal, slices, masked)


class Writing(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write, self.scale = write, torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0, 4.0]))

    def forward(self, x):
        return self.write(x * self.scale)


def tuple_of(results):
    return results if isinstance(results, tuple) else (results,)


def saved(file):
    """Return a function that runs a file."""
    if file.format == "onnx":
        return lambda x: ReferenceEvaluator(str(file.path)).run(None, {"x": x.numpy()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        is_script = file.format == "torchscript"
        program = torch.jit.load(file.path) if is_script else torch.export.load(file.path).module()
    return lambda x: [each.numpy() for each in tuple_of(program(x))]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("formats", [frozenset(), frozenset({"onnx", "exported"})], ids=["onnx", "exported"])
def test_the_file_computes_what_the_module_does(tmp_path, write, formats):
    module, x = Writing(write), torch.randn(2, 4)
    file = resolve(module, example_inputs=torch.ones(2, 4), folder=tmp_path, formats=formats)
    file = file.otherwise() if formats and file.otherwise else file
    with torch.no_grad():
        expected = [each.numpy() for each in tuple_of(module(x))]
        results = saved(file)(x)
    assert all(map(np.array_equal, results, expected))


class Normalizing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())

    def forward(self, x):
        y = self.layers(x.to(torch.float64).float())
        y.flatten(1)[:, 1:4].mul_(2)
        return y


def test_ordinary_operators_beside_a_write_stay_what_they_are(tmp_path):
    module, x = Normalizing().eval(), torch.randn(1, 2, 5, 5)
    file = resolve(module, example_inputs=x, folder=tmp_path)
    assert file.format == "onnx"
    with torch.no_grad():
        assert saved(file)(x)[0] == pytest.approx(module(x).numpy(), abs=1e-5)
