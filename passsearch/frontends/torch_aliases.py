"""Writes through one view of a PyTorch tensor that are read through another one, which exporters lose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from passsearch.frontends.torch_call import TorchCall

aten = torch.ops.aten

EXPORTED_VIEWS = frozenset({"aten::select", "aten::slice", "aten::alias", "aten::detach"})
"""Views through which a write reaches the tensor itself in exported files too."""


class AliasReads(TorchDispatchMode):  # type: ignore[misc]
    """Watches the operators of a run.

    An exporter replaces a write by a new value of the view that is written. Other views of the same memory, and the
    tensor itself, keep the value that they had before.

    Attributes:
        found: Whether a tensor was read whose memory had been written through another view of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        self._writes: dict[int, int] = {}  # by memory
        self._seen: Any = WeakIdKeyDictionary()  # by tensor, the number of writes that an exported file has in it
        self._views: Any = WeakIdKeyDictionary()  # by view, whether all views that made it are exported ones

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator."""
        kwargs = kwargs or {}
        inputs = list(_tensors((args, kwargs)))
        self.read(inputs)
        results = func(*args, **kwargs)
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in _tensors(value):
                    self._write(tensor)
        for result in _tensors(results):
            self._note_result(result, inputs, is_exported=func._schema.name in EXPORTED_VIEWS)
        return results

    def read(self, values: Any) -> None:
        """Note that these values are read."""
        for tensor in _tensors(values):
            self.found |= self._seen.get(tensor, 0) != self._writes.get(_memory(tensor), 0)

    def _note_result(self, result: torch.Tensor, inputs: Sequence[torch.Tensor], *, is_exported: bool) -> None:
        sources = [each for each in inputs if _memory(each) == _memory(result)]
        if not sources:
            # New memory may have the address of memory that was freed.
            self._writes.pop(_memory(result), None)
        elif all(each is not result for each in sources):
            self._seen[result] = self._seen.get(sources[0], 0)
            self._views[result] = self._views.get(sources[0], True) and is_exported

    def _write(self, tensor: torch.Tensor) -> None:
        memory = _memory(tensor)
        self._writes[memory] = self._seen[tensor] = self._writes.get(memory, 0) + 1
        if tensor._base is not None and self._views.get(tensor, False):
            self._seen[tensor._base] = self._writes[memory]


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            yield leaf


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def without_writes(module: Any, call: TorchCall) -> Any:
    """Return a module that computes the same by operators that write nothing.

    Args:
        module: A module that takes tensors only.
        call: The call with example tensors.
    """
    program = torch.export.export(module, call.copies(), strict=False)
    result = program.run_decompositions(DECOMPOSITIONS).module()
    _restore_operators(result.graph)
    result.recompile()
    for part in result.modules():
        # Of a program's module they raise, and exporters call them.
        vars(part).pop("train", None)
        vars(part).pop("eval", None)
    return result


def _restore_operators(graph: Any) -> None:
    """Write operators that PyTorch has inside only as the ordinary ones, which importers know."""
    for node in list(graph.nodes):
        if node.target is aten._to_copy.default:
            node.op, node.target = "call_method", "to"
            node.kwargs = {"dtype": node.kwargs["dtype"]} if node.kwargs.get("dtype") else {"other": node.args[0]}
        elif node.target is aten._native_batch_norm_legit_no_training.default:
            data, weight, bias, mean, variance, momentum, epsilon = node.args
            node.target = torch.nn.functional.batch_norm
            node.args = (data, mean, variance, weight, bias, False, momentum, epsilon)
            # The operator has three results, of which inference has the first one only.
            for user in list(node.users):
                user.replace_all_uses_with(node)
                graph.erase_node(user)


def _select(data: torch.Tensor, source: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    """Write ``select_scatter`` as a concatenation, which every format has."""
    place = index % data.shape[dim]
    return _replace(data, source.unsqueeze(dim), dim, start=place, end=place + 1)


def _slice(
    data: torch.Tensor,
    source: torch.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> torch.Tensor:
    """Write ``slice_scatter`` as a concatenation, or by indices where the slice has steps."""
    first, last, _ = slice(start, end, step).indices(data.shape[dim])
    if step == 1:
        return _replace(data, source, dim, start=first, end=max(first, last))
    places = torch.arange(first, last, step, device=data.device)
    return data.index_copy(dim, places, source.to(data.dtype))


def _replace(data: torch.Tensor, source: torch.Tensor, dim: int, *, start: int, end: int) -> torch.Tensor:
    size = data.shape[dim]
    parts = [data.narrow(dim, 0, start), source.to(data.dtype), data.narrow(dim, end, size - end)]
    return torch.cat([part for part in parts if part.shape[dim]], dim)


def _fill(data: torch.Tensor, value: Any) -> torch.Tensor:
    return torch.full(data.shape, value, dtype=data.dtype, device=data.device)


def _fill_tensor(data: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return value.to(data.dtype).expand(data.shape)


def _zero(data: torch.Tensor) -> torch.Tensor:
    return torch.zeros(data.shape, dtype=data.dtype, device=data.device)


def _copy(data: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return source.to(data.dtype).expand(data.shape)


DECOMPOSITIONS = {
    aten.select_scatter.default: _select,
    aten.slice_scatter.default: _slice,
    aten.fill.Scalar: _fill,
    aten.fill.Tensor: _fill_tensor,
    aten.zero.default: _zero,
    aten.copy.default: _copy,
}
"""Operators that take the place of writes, by ordinary ones."""
