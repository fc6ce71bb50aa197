"""Tests of the graphs that Dynamo makes, with the graph itself in place of the compiled network."""

import warnings

import pytest

from passsearch.errors import UserError

torch = pytest.importorskip("torch")

from passsearch.frontends.torch_dynamo import GraphPart, outside_inference_mode  # noqa: E402


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return torch.relu(self.norm(self.dense(x))) * self.scale


class Calls:
    """A backend whose compiled network is the part's own module, and which counts its calls."""

    def __init__(self):
        self.parts, self.number = [], 0

    def __call__(self, graph, examples):
        part = GraphPart(graph, examples)
        self.parts.append(part)

        def network(*inputs):
            self.number += 1
            with torch.no_grad():
                return part.module(*inputs)

        return part.function(network)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def part_of(function, *inputs):
    """Return the first graph of a function, without running what it was compiled to."""
    parts = []

    def backend(graph, examples):
        parts.append(GraphPart(graph, examples))
        return graph.forward

    torch.compile(function, backend=backend)(*inputs)
    return parts[0]


def test_weights_are_constants_and_inputs_are_arguments():
    module, x = Module().eval(), torch.randn(2, 4)
    part = part_of(module, x)
    assert [tuple(each.shape) for each in part.examples] == [(2, 4)]
    assert torch.equal(part.module(x)[0], module(x))
    assert part.name.startswith("`forward` (test_torch_dynamo.py, line ") and "operators" in part.name
    assert part.obstacle() == ""
    part.refuse_training()


@pytest.mark.parametrize(
    "change",
    [
        lambda module: module.dense.weight.mul_(2),
        lambda module: module.load_state_dict(Module().state_dict()),
        lambda module: setattr(module.dense, "weight", torch.nn.Parameter(torch.randn(4, 4))),
        lambda module: setattr(module.dense.weight, "data", torch.randn(4, 4)),
        lambda module: module.scale.add_(1),
    ],
)
def test_changed_weights_give_no_wrong_number(change):
    module, x, backend = Module().eval(), torch.randn(2, 4), Calls()
    fast = torch.compile(module, backend=backend)
    with torch.no_grad():
        assert torch.equal(fast(x), module(x)) and backend.number == 1
        change(module)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert torch.equal(fast(x), module(x)) and torch.equal(fast(x), module(x))
    compiled_again = len(backend.parts) > 1
    assert compiled_again or (backend.number == 1 and len([w for w in caught if "weights" in str(w.message)]) == 1)


def test_inference_mode_is_as_good_as_no_gradients():
    module, x, backend = Module().eval(), torch.randn(2, 4), Calls()
    with torch.inference_mode():
        made_inside = torch.randn(2, 4)
        fast = torch.compile(module, backend=backend)
        assert torch.equal(fast(x), module(x)) and torch.equal(fast(made_inside), module(made_inside))
        assert backend.number == 2
        with outside_inference_mode():
            assert {GraphPart(part._graph, part._arguments).obstacle() for part in backend.parts} == {""}


def test_a_backward_pass_to_the_weights_is_refused():
    module, backend = Module().eval(), Calls()
    y = torch.compile(module, backend=backend)(torch.randn(2, 4))
    assert backend.number == 1
    with pytest.raises(RuntimeError, match="passsearch compiles inference"):
        y.sum().backward()


def written(x):
    x.add_(1)
    return torch.relu(x) * 2 + 1


def viewed(x):
    y = torch.tanh(x) + 1
    return y * 2, x[:1]


def shared(x):
    y = torch.tanh(x) + 1
    return y, y.t()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (written, "writes one of its inputs"),
        (viewed, "view of an input"),
        (shared, "two results share memory"),
    ],
)
def test_what_a_compiled_network_would_not_do_runs_eagerly(function, reason):
    assert reason in part_of(function, torch.randn(2, 4)).obstacle()


def test_parts_of_one_tensor_that_do_not_overlap_are_compiled():
    assert part_of(lambda x: (torch.tanh(x) + 1).chunk(2), torch.randn(2, 4)).obstacle() == ""


def test_open_sizes_and_autocast_run_eagerly():
    x = torch.randn(2, 4)
    torch._dynamo.mark_dynamic(x, 0)
    assert "its sizes are open" in part_of(lambda x: torch.tanh(x).sum(0) * x.shape[0] + 1, x).obstacle()
    with torch.autocast("cpu"):
        assert "autocast" in part_of(Module().eval(), torch.randn(2, 4)).obstacle()


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (torch.nn.Dropout(0.5), "dropout"),
        (torch.nn.BatchNorm1d(4), "batch_norm"),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout1d(0.1)), "dropout1d"),
    ],
)
def test_training_mode_is_refused(layer, name):
    with pytest.raises(UserError, match=rf"`{name}` in .* is in training mode, .* call `eval\(\)`"):
        part_of(layer.train(), torch.randn(2, 4)).refuse_training()
    part_of(layer.eval(), torch.randn(2, 4)).refuse_training()


def test_layers_that_do_nothing_in_training_are_compiled():
    layers = torch.nn.Sequential(torch.nn.Dropout(0.0), torch.nn.BatchNorm1d(4, track_running_stats=False))
    part_of(layers.train(), torch.randn(2, 4)).refuse_training()


def test_graphs_are_the_same_if_operators_types_and_weights_are():
    module, x = Module().eval(), torch.randn(2, 4)
    with_gradients = part_of(module, x).key
    torch._dynamo.reset()
    with torch.no_grad():
        assert part_of(module, x).key == with_gradients
        torch._dynamo.reset()
        assert part_of(Module().eval(), x).key != with_gradients
        torch._dynamo.reset()
        assert part_of(module, torch.randn(3, 4)).key != with_gradients
        module.scale.add_(1)
        torch._dynamo.reset()
        assert part_of(module, x).key != with_gradients
