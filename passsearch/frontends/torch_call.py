"""The arguments and results of a PyTorch module as named tensors: nested tuples, lists and mappings are flattened."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from passsearch.errors import UserError

SETTINGS = (bool, str, type(None))
"""Types of arguments that are no tensors and become part of the network."""


@dataclass(frozen=True)
class TorchCall:
    """A call of a module.

    Attributes:
        tensors: The example tensors by name, in the order of the module's arguments.
        structure: PyTorch's description of the nested arguments.
        leaves: The arguments in the order of this structure; in place of a tensor, its name.
    """

    tensors: Mapping[str, torch.Tensor]
    structure: Any
    leaves: tuple[object, ...]

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments by position and those by name, with these tensors in them."""
        values = iter(tensors)
        leaves = [next(values) if isinstance(leaf, _Slot) else leaf for leaf in self.leaves]
        by_position, by_name = tree_unflatten(leaves, self.structure)
        return by_position, by_name

    def copies(self) -> tuple[torch.Tensor, ...]:
        """Return copies of the example tensors, because a module may write its inputs."""
        return tuple(tensor.detach().clone() for tensor in self.tensors.values())


class _Slot:
    """The place of a tensor among the arguments."""


def read_call(module: Any, example_inputs: object) -> TorchCall:
    """Return the call that example inputs describe.

    Args:
        module: The module.
        example_inputs: A tensor, a tuple or list of arguments by position, or a mapping by argument name. An argument
            is a tensor, a setting (true, false, ``None`` or a text), or nested tuples, lists and mappings of these.

    Raises:
        UserError: There are none, an argument is unknown, or it is something else.
    """
    if example_inputs is None:
        raise UserError("A torch module needs example inputs, for example example_inputs=torch.randn(1, 3, 224, 224).")
    arguments, takes_more = _parameters(module)
    if isinstance(example_inputs, Mapping):
        values = {str(name): value for name, value in example_inputs.items()}
        unknown = [name for name in values if name not in arguments]
        if unknown and arguments and not takes_more:
            raise UserError(f"Unknown example input `{unknown[0]}`; the arguments are: {', '.join(arguments)}.")
        return _flatten((), {name: values[name] for name in (*arguments, *unknown) if name in values}, names=())
    sequence = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
    is_named = len(arguments) >= len(sequence)
    names = arguments if is_named else [f"input_{index}" for index in range(len(sequence))]
    return _flatten(tuple(sequence), {}, names=names)


def program_call(structure: Any, inputs: Sequence[object]) -> TorchCall:
    """Return the call of an exported program's module.

    Args:
        structure: The program's ``in_spec``.
        inputs: The program's inputs in order: pairs of name and example tensor, or another value.
    """
    tensors: dict[str, torch.Tensor] = dict(each for each in inputs if isinstance(each, tuple))
    return TorchCall(tensors, structure, tuple(_Slot() if isinstance(each, tuple) else each for each in inputs))


def argument_names(module: Any) -> list[str]:
    """Return the names of the arguments of a module's ``forward``."""
    return _parameters(module)[0]


def _parameters(module: Any) -> tuple[list[str], bool]:
    """Return the names of the arguments of a module, and whether it takes others by name."""
    forward = module.forward
    if isinstance(module, torch.jit.ScriptModule):
        return [argument.name for argument in forward.schema.arguments[1:]], False
    parameters = inspect.signature(forward).parameters.values()
    names = [entry.name for entry in parameters if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)]
    return names, any(entry.kind == entry.VAR_KEYWORD for entry in parameters)


def _flatten(by_position: tuple[Any, ...], by_name: Mapping[str, Any], *, names: Sequence[str]) -> TorchCall:
    roots = [*zip(names, by_position, strict=False), *by_name.items()]
    _, structure = tree_flatten((by_position, dict(by_name)))
    tensors: dict[str, torch.Tensor] = {}
    leaves: list[object] = []
    for name, value in (each for root, nested in roots for each in _named_leaves(nested, root)):
        if not isinstance(value, torch.Tensor):
            leaves.append(_setting(name, value))
            continue
        if name in tensors:
            raise UserError(f"Two example inputs have the name `{name}`; rename one of them.")
        tensors[name] = value
        leaves.append(_Slot())
    return TorchCall(tensors, structure, tuple(leaves))


def _setting(name: str, value: object) -> object:
    if isinstance(value, SETTINGS):
        return value
    raise UserError(
        f"Example input `{name}` is a `{type(value).__name__}`; "
        "give a tensor, or a tuple, list or dict of tensors; a number is part of the module."
    )


def named_results(results: Any) -> list[tuple[str, Any]]:
    """Return the values among a module's results by name, in order; ``None`` is left out."""
    has_names = isinstance(results, Mapping) or hasattr(results, "_fields")
    leaves = _named_leaves(results, "" if has_names else "output")
    return [(name.removeprefix("."), value) for name, value in leaves if value is not None]


def _named_leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested values, in PyTorch's order, by the path to each."""
    children, structure = tree_flatten(value, is_leaf=lambda each: each is not value)
    if structure.is_leaf():
        yield name, value
        return
    # Not by PyTorch's paths: classes may be registered without them, as those of transformers are.
    keys = list(value) if isinstance(value, Mapping) else getattr(value, "_fields", None)
    keys = keys if keys is not None and len(keys) == len(children) else range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from _named_leaves(child, f"{name}.{key}")


def tensor_results(results: Any) -> list[torch.Tensor]:
    """Return the tensors among a module's results, in order."""
    return [value for value in tree_flatten(results)[0] if isinstance(value, torch.Tensor)]
