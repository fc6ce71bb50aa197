"""Tests that a module and the random generators are as before, whatever the front end does with the module."""

import random
from contextlib import suppress

import numpy as np
import pytest

from passsearch.errors import UserError
from passsearch.frontends import resolve

torch = pytest.importorskip("torch")


class Stateful(torch.nn.Module):
    """Keeps something of every kind from one run to the next."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("memory", torch.zeros(3, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.plain, self.steps, self.seen, self.cache = torch.zeros(4), 0, [], {"last": None, "past": [torch.zeros(4)]}

    def forward(self, x):
        y = self.layer(x)
        self.memory[1:] = self.memory[:-1].clone()
        self.memory[0] = y[0]
        self.count = self.count + 1
        self.plain += y[0]
        self.steps += 1
        self.seen.append(self.steps)
        self.cache["last"] = y
        self.cache["past"][0].add_(1)
        self.layer.weight.data.mul_(0.5)
        self.layer.train()
        return self.memory.mean(0) + torch.rand(4) + random.random() + np.random.rand()


class Raising(Stateful):
    def forward(self, x):
        super().forward(x)
        raise ValueError("no")


class Differentiating(torch.nn.Module):
    """Computes the gradient of an energy, as force fields do, which adds to the gradients of its parameters."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        with torch.enable_grad():
            position = x.detach().requires_grad_()
            self.layer(position).sum().backward()
        return position.grad


def snapshot(module):
    plain = [module.plain, module.steps, module.seen, module.cache["last"], *module.cache["past"]]
    values = [*module.state_dict().values(), *plain]
    flags = [part.training for part in module.modules()]
    identities = [id(value) for value in (*module.parameters(), *module.buffers(), module.plain, module.seen)]
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values], flags, identities


def same(one, other):
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", [Stateful, Raising])
def test_a_refused_module_is_as_before(tmp_path, kind):
    module = kind()
    module.layer.weight.grad = torch.ones(4, 4)
    gradient = module.layer.weight.grad
    calls = []
    handle = module.layer.register_forward_hook(lambda *_: calls.append(1))
    hooks = dict(module.layer._forward_hooks)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    values, flags, identities = snapshot(module)
    with pytest.raises(UserError) as refusal:
        resolve(module, example_inputs=torch.ones(2, 4), folder=tmp_path)
    assert "\n" not in str(refusal.value)
    now, flags_now, identities_now = snapshot(module)
    assert same(values, now)
    assert (flags, identities) == (flags_now, identities_now)
    assert module.seen == []
    assert module.layer.weight.grad is gradient
    assert torch.equal(gradient, torch.ones(4, 4))
    assert dict(module.layer._forward_hooks) == hooks
    handle.remove()
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()


class Interrupted(Stateful):
    def forward(self, x):
        super().forward(x)
        raise KeyboardInterrupt


def test_an_interrupted_module_is_as_before(tmp_path):
    module, example = Interrupted(), torch.ones(2, 4)
    module.layer.weight.grad = torch.ones(4, 4)
    state, (values, *before) = torch.get_rng_state(), snapshot(module)
    with pytest.raises(KeyboardInterrupt):
        resolve(module, example_inputs=example, folder=tmp_path)
    now, *after = snapshot(module)
    assert same(values, now) and before == after
    assert torch.equal(module.layer.weight.grad, torch.ones(4, 4)) and torch.equal(state, torch.get_rng_state())


def test_gradients_are_as_before(tmp_path):
    module = Differentiating()
    module.layer.bias.grad = torch.full((1,), 7.0)
    with suppress(UserError):  # no exporter writes a call of autograd
        resolve(module, example_inputs=torch.ones(2, 4), folder=tmp_path)
    assert module.layer.weight.grad is None
    assert module.layer.bias.grad.item() == 7


def test_the_users_tensors_are_as_before(tmp_path):
    module, example = torch.nn.Sequential(torch.nn.ReLU(inplace=True)), torch.tensor([[-1.0, 2.0]])
    file = resolve(module, example_inputs=example, folder=tmp_path)
    assert example.tolist() == [[-1, 2]]
    assert file.live().run({"input": example.numpy()})[0].tolist() == [[0, 2]]


def test_a_module_in_training_mode_is_imported_in_inference_mode_with_a_notice(tmp_path, caplog):
    module, x = (
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout()),
        torch.randn(3, 4),
    )
    file = resolve(module, example_inputs=x, folder=tmp_path)
    assert "is in training mode; it is imported as after `eval()`, where its layers `BatchNorm1d` do not" in caplog.text
    assert module.training
    (array,) = file.live().run({"input": x.numpy()})
    assert np.array_equal(array, module.eval()(x).detach().numpy())
    caplog.clear()
    resolve(module, example_inputs=x, folder=tmp_path)
    assert "training" not in caplog.text


class Memory(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("memory", torch.zeros(4))

    def forward(self, x):
        self.memory.add_(x.mean())
        return x + self.memory


class Counting(torch.nn.Module):
    steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


class Store:
    """Values of earlier runs, as an object that is no module."""

    def __init__(self):
        self.past, self.owner = [torch.zeros(4)], self


class Storing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.store = Store()

    def forward(self, x):
        self.store.past[0] = self.store.past[0] + x
        return x + self.store.past[0]


class Normalising(torch.nn.Module):
    """Normalises by the statistics of the batch, whatever its mode."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(1)

    def train(self, mode=True):
        return super().train(True)

    def forward(self, x):
        return self.norm(x[:, None])


class Filling(torch.nn.Module):
    """A cache of keys, with the place of the next one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(8, 4))
        self.place = 0

    def forward(self, x):
        self.keys[self.place] = x
        self.place += 1
        return self.keys.sum(0)


class Caching(torch.nn.Module):
    """Computes a constant once, as modules with position tables do."""

    table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(4.0)
        return x + self.table


def scripted(module):
    return torch.jit.script(module)


def exported(module):
    return torch.export.export(module, (torch.ones(4),))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Memory, r"`Memory` writes `memory` when it runs, .* make it an argument"),
        (lambda: torch.nn.Sequential(Memory()), r"`Sequential` writes `0.memory` when"),
        (lambda: scripted(Memory()), r"`Memory` writes `memory` when"),
        (lambda: exported(Memory()), r"`program` writes `memory` when"),
        (Normalising, r"`Normalising` writes `norm.running_mean` when"),
        (Filling, r"`Filling` writes `keys` when"),
        (Storing, r"A second run of `Storing` computes .* because it keeps `store` from one run to the next"),
        (Counting, r"A second run of `Counting` computes something else than the first one, because it keeps `steps`"),
    ],
)
def test_a_module_that_keeps_a_state_is_refused_by_its_name(tmp_path, make, message):
    module = make()
    options = {} if isinstance(module, torch.export.ExportedProgram) else {"example_inputs": torch.ones(4)}
    for _ in range(2):
        with pytest.raises(UserError, match=message) as refusal:
            resolve(module, folder=tmp_path, **options)
        assert "\n" not in str(refusal.value)
    state = module.state_dict if options == {} else module.state_dict()
    assert all(not value.any() for name, value in state.items() if name not in ("norm.weight", "norm.running_var"))
    assert not isinstance(module, Storing) or not module.store.past[0].any()


def test_a_module_that_computes_a_constant_once_is_imported(tmp_path):
    module = Caching()
    assert resolve(module, example_inputs=torch.ones(4), folder=tmp_path).format == "onnx"
    assert module.table is None
