"""The state of a PyTorch module and of random generators, which a run or an export of the module leaves as it is."""

from __future__ import annotations

import random
import warnings
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
"""Types of the mutable containers whose content is restored."""

STATELESS = {"builtins", "collections", "enum", "functools", "logging", "numpy", "torch", "types"}
"""Packages whose objects keep no state of a module in their attributes."""

LARGE_BYTES = 1 << 20
"""Size from which on a quick restoration looks at the number of writes to a tensor and not at its values."""

_MODES = {"train", "eval"}


@contextmanager
def preserved(module: Any) -> Iterator[ModuleState]:
    """Yield the state of a module, and restore it at the end, whatever happens."""
    state = ModuleState(module)
    try:
        yield state
    finally:
        state.restore()


@contextmanager
def inference_mode(module: Any) -> Iterator[None]:
    """Switch a module to evaluation without gradients, and restore the flag of every submodule afterwards."""
    flags = [(part, part.training) for part in module.modules()]
    # The module of an exported program has attributes in place of `train` and `eval` that raise when they are called.
    # The ONNX exporter calls both, so the attributes are removed for the time of the export.
    overrides = [(part, {name: vars(part).pop(name) for name in _MODES & vars(part).keys()}) for part, _ in flags]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    # The fast path runs a whole encoder layer as one operator, which no other format has.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        module.eval()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        # One by one: `module.train()` would also switch the submodules that the user keeps in evaluation mode.
        for part, flag in flags:
            part.training = flag
        for part, attributes in overrides:
            vars(part).update(attributes)


class ModuleState:
    """Everything that a run of a module may change, as it was when this object was made.

    This is, for the module and all modules inside: the values and gradients of parameters, buffers and other tensors,
    attributes (training flags and hooks among them), the content of lists, dictionaries, sets and other objects in
    attributes, and the random generators of PyTorch, numpy and Python.
    """

    def __init__(self, module: Any) -> None:
        self._tensors: dict[int, _SavedTensor] = {}
        self._containers: dict[int, _SavedContainer] = {}
        self._compared: set[int] = set()  # containers that a comparison has seen
        self._parts = [(name, part, part.training) for name, part in module.named_modules()]
        for _, part, _ in self._parts:
            # The attributes of a script are in C++; those of its Python object never change.
            self._save([*part.parameters(recurse=False), *part.buffers(recurse=False)])
            if not isinstance(part, torch.jit.ScriptModule):
                self._save(vars(part))
        self._slots = [(name, holder, key, holder.get(key)) for name, holder, key in self._registered()]
        self._random = _random_states()

    def restore(self, *, quickly: bool = False) -> None:
        """Restore everything.

        Args:
            quickly: True to overlook writes to the ``data`` of large tensors, which PyTorch does not count.
        """
        for container in self._containers.values():
            container.restore()
        for tensor in self._tensors.values():
            tensor.restore(quickly=quickly)
        for _, part, training in self._parts:
            if part.training != training:
                part.training = training
        self.restore_random()

    def restore_random(self) -> None:
        """Restore the random generators only."""
        _set_random_states(*self._random)

    def has_drawn(self) -> bool:
        """Return whether numbers have been drawn from the random generators since then."""
        (in_torch, on_gpus, in_numpy, in_python), now = self._random, _random_states()
        pairs = zip([in_torch, *on_gpus], [now[0], *now[1]], strict=False)  # a run may have started CUDA
        is_same_torch = all(torch.equal(one, other) for one, other in pairs)
        return not (is_same_torch and all(map(np.array_equal, in_numpy, now[2])) and in_python == now[3])

    def written_tensors(self) -> list[str]:
        """Return the names of the parameters and buffers that were written since then, in order."""
        return [name for name, holder, key, before in self._slots if self._is_written(before, holder.get(key))]

    def changed_attributes(self) -> list[str]:
        """Return the names of other attributes that were set since then, or whose content changed."""
        names: list[str] = []
        self._compared.clear()
        for prefix, part, _ in self._parts:
            saved = self._containers.get(id(vars(part)))
            before, now = (dict(saved.content), vars(part)) if saved else ({}, {})
            keys = [key for key in {**before, **now} if key not in ("_parameters", "_buffers", "training")]
            changed = (key for key in keys if self._is_changed(before.get(key), now.get(key)))
            names += [f"{prefix}.{key}".lstrip(".") for key in changed]
        return names

    def _registered(self) -> Iterator[tuple[str, Any, str]]:
        """Yield parameters and buffers: name in the whole module, mapping that holds them, key in it."""
        for prefix, part, _ in self._parts:
            is_script = isinstance(part, torch.jit.ScriptModule)
            for kind in ("parameters", "buffers"):
                named = dict(getattr(part, f"named_{kind}")(recurse=False))
                holder = named if is_script else getattr(part, f"_{kind}")
                yield from ((f"{prefix}.{key}".lstrip("."), holder, key) for key in holder)

    def _save(self, value: Any) -> None:
        """Keep a copy of a tensor or a container, and of those in it."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._tensors:
                self._tensors[id(value)] = _SavedTensor(value)
        elif type(value) in CONTAINERS and id(value) not in self._containers:
            self._containers[id(value)] = _SavedContainer(value)
            self._save(tuple(value.values() if isinstance(value, dict) else value))
        elif type(value) is tuple:
            for inner in value:
                self._save(inner)
        elif _is_plain_object(value):
            self._save(vars(value))

    def _is_written(self, before: Any, now: Any) -> bool:
        if not isinstance(before, torch.Tensor) or not isinstance(now, torch.Tensor):
            return now is not before
        saved = self._tensors[id(before)]
        return saved.is_written() if now is before else not is_same(saved.copy, now)

    def _is_changed(self, before: Any, now: Any) -> bool:
        if before is not now or isinstance(now, torch.Tensor):
            return self._is_written(before, now) and not _is_equal(before, now)
        now = vars(now) if _is_plain_object(now) else now
        saved = self._containers.get(id(now))
        # An object may refer to itself.
        if saved is None or id(now) in self._compared:
            return False
        self._compared.add(id(now))
        earlier, later = saved.items(saved.content), saved.items(now)
        return len(earlier) != len(later) or any(
            a != b if isinstance(a, str) else self._is_changed(a, b) for a, b in zip(earlier, later, strict=True)
        )


class _SavedTensor:
    """A tensor with a copy of its values and of its gradient."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.copy = tensor, tensor.detach().clone()
        self._needs_gradient = tensor.requires_grad
        # Only a leaf has a gradient, and PyTorch warns of a look at that of another tensor.
        self._gradient = tensor.grad if tensor.is_leaf else None
        self._gradient_copy = None if self._gradient is None else self._gradient.detach().clone()
        self._version = _version(tensor)

    def is_written(self) -> bool:
        """Return whether something was written to the tensor, be it the same values."""
        # A write to `tensor.data` leaves the version as it is.
        return _version(self.tensor) != self._version or not is_same(self.copy, self.tensor)

    def restore(self, *, quickly: bool) -> None:
        is_unread = quickly and self.copy.nbytes >= LARGE_BYTES and _version(self.tensor) == self._version is not None
        if not is_unread:
            _assign(self.tensor, self.copy)
        if not self.tensor.is_leaf:
            return
        if self.tensor.requires_grad != self._needs_gradient:
            self.tensor.requires_grad_(self._needs_gradient)
        if self.tensor.grad is not self._gradient:
            self.tensor.grad = self._gradient
        if self._gradient is not None and self._gradient_copy is not None:
            _assign(self._gradient, self._gradient_copy)


class _SavedContainer:
    """A container with a shallow copy of its content."""

    def __init__(self, container: Any) -> None:
        self.container = container
        self.content = list(container.items()) if isinstance(container, dict) else list(container)

    def items(self, container: Any) -> list[Any]:
        """Return keys and values of a mapping, or the elements of another container."""
        is_pairs = isinstance(self.container, dict)
        pairs = container.items() if isinstance(container, dict) else container
        return [each for pair in pairs for each in pair] if is_pairs else list(container)

    def restore(self) -> None:
        if self._is_as_before():
            return
        # In place, because others may hold the container too.
        self.container.clear()
        fill = self.container.extend if isinstance(self.container, list | deque) else self.container.update
        fill(self.content)

    def _is_as_before(self) -> bool:
        before, now = self.items(self.content), self.items(self.container)
        return len(before) == len(now) and all(map(_is_identical, before, now))


def _is_plain_object(value: object) -> bool:
    """Return whether a value is an object of the user's or of a library's class, such as a cache of keys and values."""
    package = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and not callable(value) and package not in STATELESS


def _is_identical(one: object, other: object) -> bool:
    return one is other


def _is_equal(one: object, other: object) -> bool:
    """Return whether two plain values are equal; false for all others."""
    plain = (bool, int, float, str, bytes, type(None))
    return type(one) is type(other) and isinstance(one, plain) and one == other


def _version(tensor: torch.Tensor) -> int | None:
    """Return the number of writes to a tensor; ``None`` for one that does not count them."""
    return None if tensor.is_inference() else tensor._version


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same type, shape and values; NaN equals NaN."""
    if one.dtype != other.dtype or one.shape != other.shape or one.device != other.device:
        return False
    if one.layout != torch.strided or one.is_quantized or one.is_meta:
        return one is other or str(one) == str(other)
    return torch.equal(one, other) or bool(((one == other) | (one != one) & (other != other)).all())


def _assign(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Give a tensor its earlier values; through ``data``, because autograd may still need the tensor's version."""
    if is_same(value, tensor.detach()):
        return
    if tensor.shape == value.shape and tensor.dtype == value.dtype and tensor.device == value.device:
        tensor.data.copy_(value)
    else:
        tensor.data = value


def _random_states() -> tuple[torch.Tensor, list[torch.Tensor], Any, Any]:
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), on_gpus, np.random.get_state(), random.getstate()


def _set_random_states(of_torch: torch.Tensor, on_gpus: Iterable[torch.Tensor], of_numpy: Any, of_python: Any) -> None:
    torch.set_rng_state(of_torch)
    for place, state in enumerate(on_gpus):
        torch.cuda.set_rng_state(state, place)
    np.random.set_state(of_numpy)
    random.setstate(of_python)
