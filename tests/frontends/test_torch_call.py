"""Tests of nested inputs and outputs of PyTorch modules."""

import numpy as np
import pytest

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import resolve

torch = pytest.importorskip("torch")


class Nested(torch.nn.Module):
    def forward(self, x, state, options=None, *, masks=None):
        hidden, (cell, rest) = state
        y = x + 2 * hidden - 3 * cell * rest["first"] + 5 * rest["second"]
        y = y if masks is None else y * masks[0] + masks[1]
        y = y if not (options or {}).get("negative") else -y
        return {"y": y, "state": [hidden + 1, (cell.double(), None)], "more": {"z": rest["second"] > 0}}


class Tensor(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Several(torch.nn.Module):
    def forward(self, x):
        return [x, (x + 1, x.long())]


class WithSize(torch.nn.Module):
    def forward(self, x):
        return x + 1, 3


def tensors(*names):
    return {name: torch.randn(2, 3) for name in names}


def example(named):
    state = (named["h"], [named["c"], {"second": named["s"], "first": named["f"]}])
    return {"x": named["x"], "state": state, "options": {"negative": True}, "masks": (named["m"], named["n"])}


def expected(named):
    y = -((named["x"] + 2 * named["h"] - 3 * named["c"] * named["f"] + 5 * named["s"]) * named["m"] + named["n"])
    return [y, named["h"] + 1, named["c"].double(), named["s"] > 0]


NAMES = {
    "x": "x",
    "state.0": "h",
    "state.1.0": "c",
    "state.1.1.second": "s",
    "state.1.1.first": "f",
    "masks.0": "m",
    "masks.1": "n",
}


def test_nested_inputs_have_names_and_give_the_modules_outputs(tmp_path):
    named = tensors(*"xhcsfmn")
    file = resolve(Nested(), example_inputs=example(named), folder=tmp_path)
    source = file.live()
    others = tensors(*"xhcsfmn")
    arrays = source.run({name: others[key].numpy() for name, key in NAMES.items()})
    for array, tensor in zip(arrays, expected(others), strict=True):
        assert np.array_equal(array, tensor.numpy())
        assert array.dtype == tensor.numpy().dtype
    assert source.output_names == ["y", "state.0", "state.1.0", "more.z"]
    assert source.output_types[2] == TensorType((2, 3), "float64")
    assert source.runtime.startswith("PyTorch 2")


@pytest.mark.parametrize(("kind", "names"), [(Tensor, ["output"]), (Several, ["output.0", "output.1.0", "output.1.1"])])
def test_outputs_without_keys_are_numbered(tmp_path, kind, names):
    source = resolve(kind(), example_inputs=torch.ones(2), folder=tmp_path).live()
    source.run({"x": np.ones(2, np.float32)})
    assert source.output_names == names


def test_a_result_that_is_no_tensor_is_told(tmp_path, caplog):
    resolve(WithSize(), example_inputs=torch.ones(2), folder=tmp_path)
    assert "`WithSize` returns `output.1`, which is no tensor; an export leaves it out." in caplog.text


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            (torch.ones(2), (torch.ones(2), 3)),
            r"Example input `state.1` is a `int`; give a tensor, or a tuple, list or",
        ),
        ({"x": torch.ones(2), "state": {"a": object()}}, r"Example input `state.a` is a `object`"),
    ],
)
def test_a_leaf_that_is_no_tensor_is_refused_by_its_name(tmp_path, inputs, message):
    with pytest.raises(UserError, match=message):
        resolve(Nested(), example_inputs=inputs, folder=tmp_path)


def test_inputs_that_an_importer_renamed_go_by_position(tmp_path):
    source = resolve(Nested(), example_inputs=example(tensors(*"xhcsfmn")), folder=tmp_path).live()
    others = tensors(*"xhcsfmn")
    arrays = source.run({f"input_{place}": others[key].numpy() for place, key in enumerate(NAMES.values())})
    assert np.array_equal(arrays[0], expected(others)[0].numpy())
    with pytest.raises(UserError, match="the module takes 7 tensors, the import 1"):
        source.run({"input_0": np.ones((2, 3), np.float32)})
