"""Tests of how compiled PyTorch modules are called, with the module's own arithmetic in place of the compiled one."""

import json

import numpy as np
import pytest

from passsearch.frontends import call_form, read_form, resolve
from passsearch.standalone.deployment.machine_pool import InputError

torch = pytest.importorskip("torch")

INPUTS = [["x", "float32", [2, 3]], ["state.0", "float32", [2, 3]], ["state.1.k", "int64", [2]]]


class Module(torch.nn.Module):
    def forward(self, x, state, flag=True, *, mode="sum", scale=None):
        return {"y": x + state[0], "rest": (state[1]["k"], None)}


class Variadic(torch.nn.Module):
    def forward(self, *tensors):
        return sum(tensors)


def tensors():
    return torch.randn(2, 3), (torch.randn(2, 3), {"k": torch.arange(2)})


def run(x, state, count):
    return x + state, count


@pytest.fixture
def form(tmp_path):
    return call_form(resolve(Module(), example_inputs=tensors(), folder=tmp_path))


def test_arguments_and_results_are_those_of_the_module(form):
    call, (x, state) = form.bind(run, INPUTS, "cpu"), tensors()
    for result in (call(x, state), call(state=state, x=x), call(x, state, True, mode="sum", scale=None)):
        assert list(result) == ["y", "rest"] and result["rest"][1:] == (None,)
        assert torch.equal(result["y"], x + state[0]) and torch.equal(result["rest"][0], state[1]["k"])


def test_a_stored_form_is_the_same(form):
    again = read_form(json.loads(json.dumps(form.to_json())))
    assert again == form


def test_arrays_of_numpy_are_taken_too(form):
    x, state = np.ones((2, 3), "f4"), (np.ones((2, 3), "f4"), {"k": np.arange(2)})
    assert np.array_equal(form.bind(run, INPUTS, "cpu")(x, state)["y"], x + 1)


def test_inputs_that_the_importer_renamed_or_left_out_are_found(form):
    x, state = tensors()
    renamed = [[f"input_{place}", *kind] for place, (_, *kind) in enumerate(INPUTS)]
    assert torch.equal(form.bind(run, renamed, "cpu")(x, state)["y"], x + state[0])
    without = form.bind(lambda count, x: (x, count), [INPUTS[2], INPUTS[0]], "cpu")(x, state)
    assert torch.equal(without["y"], x) and torch.equal(without["rest"][0], state[1]["k"])


def test_tensors_in_bfloat16_stay_so(tmp_path):
    short = torch.ones(2, dtype=torch.bfloat16)
    form = call_form(resolve(Variadic(), example_inputs=(torch.ones(2), short), folder=tmp_path))
    assert not any(form.rounded[1]) and form.rounded[0] == (1,)
    form = call_form(resolve(Variadic(), example_inputs=(short, short), folder=tmp_path))
    kinds = [["input_0", "float32", [2]], ["input_1", "float32", [2]]]
    for each in (form, read_form(json.loads(json.dumps(form.to_json())))):
        call = each.bind(lambda a, b: a + b, kinds, "cpu")
        result = call(short, short)
        assert result.dtype == torch.bfloat16 and torch.equal(result, short + short)
        assert call(np.ones(2, "f4"), np.ones(2, "f4")).dtype == "float32"


def test_a_module_of_any_number_of_tensors(tmp_path):
    form = call_form(resolve(Variadic(), example_inputs=(torch.ones(2), torch.ones(2)), folder=tmp_path))
    call = form.bind(lambda a, b: a + b, [["input_0", "float32", [2]], ["input_1", "float32", [2]]], "cpu")
    assert torch.equal(call(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(InputError, match="3 arguments are too many"):
        call(*[torch.ones(2)] * 3)


X, STATE = tensors()


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((X,), {}, "`state` is missing; the network takes `x` float32"),
        ((X, STATE), {"x": X}, "`x` is there twice"),
        ((X, STATE), {"mask": X}, "No input `mask`"),
        ((X, STATE, False), {}, "No input `flag`"),
        ((X, STATE), {"scale": X}, "No input `scale`"),
        ((X, (STATE[0],)), {}, "The arguments are nested otherwise than the example inputs"),
        ((X, (STATE[0], {"j": STATE[1]["k"]})), {}, "The arguments are nested otherwise than the example inputs"),
        ((X[:1], STATE), {}, r"`x` must be float32\[2, 3\], and is float32\[1, 3\]; call it once for each batch of 2"),
        ((X.half(), STATE), {}, r"is float16\[2, 3\]; convert it: value.to\(torch.float32\)"),
        ((X.to("meta"), STATE), {}, "`x` is on meta, and the network runs on cpu; move it there"),
        ((X.to_sparse(), STATE), {}, "`x` is a sparse or quantized tensor"),
        ((None, STATE), {}, "`x` must be a tensor, and is `None`"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(form, values, named, message):
    with pytest.raises(InputError, match=message) as raised:
        form.bind(run, INPUTS, "cpu")(*values, **named)
    assert "\n" not in str(raised.value)


def test_a_backward_pass_is_refused_and_not_lost(form):
    x, state = tensors()
    weight = torch.ones(2, 3, requires_grad=True)
    result = form.bind(run, INPUTS, "cpu")(x * weight, state)
    with pytest.raises(RuntimeError, match="passsearch compiles inference"):
        (result["y"].sum() + weight.sum()).backward()
    with torch.no_grad():
        assert not form.bind(run, INPUTS, "cpu")(x * weight, state)["y"].requires_grad
