"""Tests of PyTorch as the runtime that says what a network's outputs should be."""

import numpy as np
import pytest

from passsearch.errors import UserError
from passsearch.frontends import resolve

torch = pytest.importorskip("torch")


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x):
        low, high = (self.layer(x) * self.scale).split([1, 2], 1)
        return self.scale, high.relu() + low


class Picky(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else x.missing


def test_outputs_do_not_change_with_later_runs_or_with_the_module(tmp_path):
    module, x = Network(), torch.randn(2, 4)
    source = resolve(module, example_inputs=x, folder=tmp_path).live()
    expected = [each.detach().numpy().copy() for each in module.eval()(x)]
    arrays = source.run({"x": x.numpy()})
    source.run({"x": x.numpy() * 2})
    with torch.no_grad():
        module.scale.zero_()
    assert all(map(np.array_equal, arrays, expected))


def test_low_precision_becomes_what_numpy_has():
    from passsearch.frontends.source_runtimes.torch_runtime import to_array

    array = to_array(torch.tensor([1.0, 2.01]).bfloat16())
    assert array.dtype == np.float32
    assert array.tolist() == [1, 2.015625]


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_the_module_is_one_line(tmp_path):
    source = resolve(Picky(), example_inputs=torch.ones(2), folder=tmp_path).live()
    with pytest.raises(UserError, match=r"PyTorch .* cannot run it \('Tensor' object has no attribute 'missing'\)"):
        source.run({"x": -np.ones(2, np.float32)})


def test_a_copy_of_a_program_returns_the_values_of_all_operators(tmp_path):
    from passsearch.frontends import with_all_program_values

    module, x = Network().eval(), torch.randn(2, 4)
    formats = frozenset({"onnx", "exported"})
    file = resolve(module, example_inputs=x, folder=tmp_path, formats=formats).otherwise()
    copy, values = with_all_program_values(file, tmp_path)
    arrays = copy.live().run({"x": x.numpy()})
    saved = torch.export.load(copy.path).module()(x)
    assert len(arrays) == len(saved) == 2 + len(values)
    assert all(np.array_equal(array, tensor.detach().numpy()) for array, tensor in zip(arrays, saved, strict=True))
    linear = next(value for value in values if value.value == "linear")
    assert linear.node == "`linear` (aten.linear.default)"
    assert np.array_equal(arrays[linear.place], module.layer(x).detach().numpy())
    assert "linear" in next(value for value in values if value.value == "mul").inputs


def test_every_operator_of_a_program_has_its_value():
    from passsearch.frontends.source_runtimes.torch_runtime import intermediate_values

    module, x = Network().eval(), torch.randn(2, 4)
    program = torch.export.export(module, (x,))
    values = {name: (operator, value) for name, operator, value in intermediate_values(program, [x])}
    assert values["linear"][0] == "aten.linear.default"
    torch.testing.assert_close(values["linear"][1], module.layer(x))
    torch.testing.assert_close(values["add"][1], module(x)[1])
    assert "split_with_sizes" not in values  # a tuple; its parts are values of `getitem`
