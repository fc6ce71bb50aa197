"""How a compiled PyTorch module is called: with the arguments of ``forward``; it returns what the module returns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten, treespec_dumps, treespec_loads

from passsearch.core import Json
from passsearch.errors import UserError
from passsearch.frontends.call_form import Function, flat_outputs
from passsearch.frontends.request import first_line
from passsearch.frontends.torch_call import SETTINGS, TorchCall, argument_names
from passsearch.frontends.torch_gradient import without_gradient
from passsearch.standalone.deployment.machine_pool import InputError, check_type

PLAIN = (bool, str, int, float, type(None))
"""Types of values in a result that are stored with the form."""

SLOT = "tensor"
"""Stands in a stored list of values for the place of a tensor."""


@dataclass(frozen=True)
class Nested:
    """Nested values with places for tensors.

    Attributes:
        structure: PyTorch's description of the nesting.
        leaves: The values in order, each in a tuple; an empty tuple for the place of a tensor.
    """

    structure: Any
    leaves: tuple[tuple[object, ...], ...]

    @classmethod
    def of(cls, values: Any) -> Nested:
        """Return the nesting of values, with their tensors taken out."""
        leaves, structure = tree_flatten(values)
        return cls(structure, tuple(() if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves))

    def fill(self, tensors: Sequence[Any]) -> Any:
        """Return the values with tensors in their places."""
        values = iter(tensors)
        return tree_unflatten([leaf[0] if leaf else next(values) for leaf in self.leaves], self.structure)

    def to_json(self) -> dict[str, Json]:
        """Return the form that ``from_json`` reads; raise ``UserError`` if the values have none."""
        others = [leaf[0] for leaf in self.leaves if leaf and not isinstance(leaf[0], PLAIN)]
        if others:
            raise UserError(f"a value of type `{type(others[0]).__name__}`")
        try:
            text = treespec_dumps(self.structure)
        except (NotImplementedError, TypeError, ValueError) as error:
            raise UserError(first_line(error)) from error
        leaves: list[Json] = [[leaf[0]] if leaf else SLOT for leaf in self.leaves]  # type: ignore[list-item]
        return {"structure": text, "leaves": leaves}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Nested:
        """Read what ``to_json`` returned."""
        leaves = tuple(() if leaf == SLOT else (leaf[0],) for leaf in document["leaves"])
        return cls(treespec_loads(document["structure"]), leaves)


@dataclass(frozen=True)
class TorchForm:
    """The form of a module's call.

    Attributes:
        names: Names of the tensors in order.
        arguments: Names of the arguments of ``forward`` that can be given by place.
        by_position: Names of the arguments that the example gives by place.
        by_name: Names of those that it gives by name.
        defaults: Values of arguments that may be left out, as far as they are settings.
        call: The nested arguments of the example: a tuple and a mapping.
        result: The nested results.
        rounded: Places of tensors in bfloat16, which the network has in float32: among those of the call, and of the
            results.
    """

    names: tuple[str, ...]
    arguments: tuple[str, ...]
    by_position: tuple[str, ...]
    by_name: tuple[str, ...]
    defaults: Mapping[str, Json]
    call: Nested
    result: Nested
    rounded: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @classmethod
    def of(cls, module: Any, call: TorchCall, results: Any) -> TorchForm:
        """Return the form of a call of a module and its results."""
        values, named = call.arguments(tuple(call.tensors.values()))
        arguments = argument_names(module)
        if len(arguments) < len(values):
            arguments = [f"input_{place}" for place in range(len(values))]
        return cls(
            names=tuple(call.tensors),
            arguments=tuple(arguments),
            by_position=tuple(arguments[: len(values)]),
            by_name=tuple(named),
            defaults=_defaults(module),
            call=Nested.of((tuple(values), dict(named))),
            result=Nested.of(results),
            rounded=(_rounded(list(call.tensors.values())), _rounded(tree_flatten(results)[0])),
        )

    def bind(self, run: Function, inputs: Sequence[Any], device: str) -> Function:
        """See ``CallForm``; raises ``UserError`` for a result with a number, which may depend on the inputs."""
        numbers = [leaf[0] for leaf in self.result.leaves if leaf and isinstance(leaf[0], (bool, int, float, complex))]
        if numbers:
            raise UserError(
                f"The network returns the number {numbers[0]!r}, which may be another one for other inputs; return a "
                "tensor, and compile it again."
            )
        # An importer may have renamed inputs; names that the module has not are taken by place, all of them.
        names = [name for name, *_ in inputs]
        if len(names) == len(self.names) and not set(names) <= set(self.names):
            names = list(self.names)
        checks = [_Check(name, *kind) for name, (_, *kind) in zip(names, inputs, strict=True)]
        places = [self.names.index(check.name) for check in checks]
        signature = ", ".join(f"`{check.name}` {check.dtype}{check.shape}" for check in checks)

        def compute(*tensors: Any) -> list[Any]:
            computed = flat_outputs(run(*tensors))
            return [_shortened(each) if place in self.rounded[1] else each for place, each in enumerate(computed)]

        def call(*values: Any, **named: Any) -> Any:
            try:
                tensors = self._tensors(values, named)
                used = [_widened(tensors[place]) if place in self.rounded[0] else tensors[place] for place in places]
                for check, tensor in zip(checks, used, strict=True):
                    check(tensor, device)
            except InputError as error:
                raise InputError(f"{error}; the network takes {signature}") from None
            # An input that the network does not read may have a gradient only if the module had one for it.
            return self.result.fill(without_gradient(compute, used))

        return call

    def _tensors(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the tensors of a call in the order of the example's; raise ``InputError`` if it is another call."""
        arguments = self._by_argument(values, named)
        arranged = (
            tuple(self._take(arguments, name) for name in self.by_position),
            {name: self._take(arguments, name) for name in self.by_name},
        )
        others = [name for name, value in arguments.items() if not self._is_default(name, value)]
        if others:
            raise InputError(f"No input `{others[0]}` was among the example inputs that it was compiled for")
        try:
            leaves = self.call.structure.flatten_up_to(arranged)
        except ValueError as error:
            raise InputError(
                f"The arguments are nested otherwise than the example inputs ({first_line(error)})"
            ) from None
        for leaf, known in zip(leaves, self.call.leaves, strict=True):
            if known and (type(leaf) is not type(known[0]) or leaf != known[0]):
                raise InputError(f"An argument is `{_text(leaf)}`, and it was compiled for `{_text(known[0])}`")
        return [leaf for leaf, known in zip(leaves, self.call.leaves, strict=True) if not known]

    def _by_argument(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        if len(values) > len(self.arguments):
            raise InputError(f"{len(values)} arguments are too many")
        arguments = dict(zip(self.arguments, values, strict=False))
        twice = [name for name in named if name in arguments]
        if twice:
            raise InputError(f"`{twice[0]}` is there twice, by place and by name")
        return {**arguments, **named}

    def _take(self, arguments: dict[str, Any], name: str) -> Any:
        if name in arguments:
            return arguments.pop(name)
        if name in self.defaults:
            return self.defaults[name]
        raise InputError(f"`{name}` is missing")

    def _is_default(self, name: str, value: object) -> bool:
        return isinstance(value, SETTINGS) and name in self.defaults and self.defaults[name] == value

    def to_json(self) -> dict[str, Json]:
        """See ``CallForm``."""
        try:
            nested: dict[str, Json] = {"call": self.call.to_json(), "result": self.result.to_json()}
        except UserError as error:
            return {"kind": "torch", "unsaved": str(error)}
        lists: dict[str, Json] = {
            "names": list(self.names),
            "arguments": list(self.arguments),
            "by_position": list(self.by_position),
            "by_name": list(self.by_name),
        }
        if any(self.rounded):
            nested["rounded"] = [list(places) for places in self.rounded]
        return {"kind": "torch", **lists, "defaults": dict(self.defaults), **nested}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TorchForm:
        """Read what ``to_json`` returned.

        Raises:
            UserError: A class of the results belongs to a package that is not imported.
        """
        try:
            call, result = (Nested.from_json(document[key]) for key in ("call", "result"))
        except (NotImplementedError, ValueError, KeyError, ImportError, AttributeError) as error:
            raise UserError(
                f"A class of its arguments or results is not known ({first_line(error)}); import its package first."
            ) from error
        lists = {key: tuple(document[key]) for key in ("names", "arguments", "by_position", "by_name")}
        inputs, outputs = map(tuple, document.get("rounded", ((), ())))
        return cls(**lists, defaults=document["defaults"], call=call, result=result, rounded=(inputs, outputs))


class _Check:
    """Compares a tensor with what an input must be."""

    def __init__(self, name: str, dtype: str, shape: Sequence[int]) -> None:
        self.name, self.dtype, self.shape = name, dtype, list(shape)
        self._dtype, self._shape = getattr(torch, dtype, None), torch.Size(shape)

    def __call__(self, value: Any, device: str) -> None:
        if isinstance(value, torch.Tensor):
            if value.device.type != device:
                raise InputError(f"`{self.name}` is on {value.device}, and the network runs on {device}; move it there")
            if value.layout != torch.strided or value.is_quantized:
                raise InputError(f"`{self.name}` is a sparse or quantized tensor, and must be a dense one")
            if value.dtype == self._dtype and value.shape == self._shape:
                return
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            raise InputError(f"`{self.name}` must be a tensor, and is `{_text(value)}`")
        own = str(value.dtype).removeprefix("torch.")
        check_type(self.name, own, tuple(value.shape), self.dtype, self.shape, {}, "value.to(torch.{})")


def _rounded(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the places of those in bfloat16 among the tensors."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return tuple(place for place, tensor in enumerate(tensors) if tensor.dtype == torch.bfloat16)


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value


def _shortened(value: Any) -> Any:
    return value.bfloat16() if isinstance(value, torch.Tensor) else value  # numpy has no bfloat16


def _defaults(module: Any) -> dict[str, Json]:
    """Return the defaults of the arguments of ``forward`` that are settings."""
    if isinstance(module, torch.jit.ScriptModule):
        return {}
    parameters = inspect.signature(module.forward).parameters.values()
    return {each.name: each.default for each in parameters if isinstance(each.default, SETTINGS)}


def _text(value: object) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:60]
