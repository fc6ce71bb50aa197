"""Outputs of compiled networks, which have no gradient: a backward pass through them is refused, not silently zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

MESSAGE = (
    "passsearch compiles inference, so its network has no gradient; train the module itself, or call the compiled one "
    "within torch.no_grad()."
)


def without_gradient(compute: Callable[..., Sequence[Any]], tensors: Sequence[Any], *others: Any) -> Sequence[Any]:
    """Return the results of a computation; a backward pass to its inputs raises an error.

    Args:
        compute: The computation.
        tensors: Its arguments.
        others: Further tensors that the results depend on, such as weights.
    """
    every = (*tensors, *others)
    if not torch.is_grad_enabled() or not any(isinstance(each, torch.Tensor) and each.requires_grad for each in every):
        return compute(*tensors)
    results: tuple[Any, ...] = _Inference.apply(compute, len(tensors), *every)
    return results


class _Inference(torch.autograd.Function):  # type: ignore[misc]
    """A computation whose results depend on its inputs without a known gradient."""

    @staticmethod
    def forward(_: Any, compute: Callable[..., Sequence[Any]], count: int, *every: Any) -> tuple[Any, ...]:
        """Return the results."""
        return tuple(compute(*every[:count]))

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        """Raise the error."""
        raise RuntimeError(MESSAGE)
