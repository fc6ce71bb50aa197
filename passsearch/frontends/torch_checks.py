"""Checks of a PyTorch module before its export: it runs, keeps no state between runs, and returns tensors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from passsearch.core import NOTICE_LOG
from passsearch.dialects.contract import Array
from passsearch.errors import UserError
from passsearch.frontends.source_runtimes.torch_runtime import to_array
from passsearch.frontends.torch_aliases import AliasReads
from passsearch.frontends.torch_call import TorchCall, named_results, tensor_results
from passsearch.frontends.torch_form import TorchForm
from passsearch.frontends.torch_state import ModuleState, is_same

TOLERANCE = 1e-4
"""Relative difference between two runs that is left to the order of sums."""

ADVICE = "make it an argument of the module and return its new value"

TRAINING_LAYERS = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase)
"""Layers that compute something else in training."""

_notices = logging.getLogger(NOTICE_LOG)


@dataclass(frozen=True)
class CheckedRun:
    """A run of a module on its example inputs.

    Attributes:
        results: The tensors among its results, as arrays.
        form: How the module is called.
        has_aliases: True if the module writes to a view of a tensor that is read through another view: see
            ``AliasReads``.
    """

    results: Sequence[Array]
    form: TorchForm
    has_aliases: bool


def tell_training_mode(module: Any, name: str) -> None:
    """Print a notice if a module would compute something else in the mode that it is in."""
    layers = [part for part in module.modules() if isinstance(part, TRAINING_LAYERS) and part.training]
    if layers:
        _notices.warning(
            "`%s` is in training mode; it is imported as after `eval()`, where its layers `%s` do not train.",
            name,
            type(layers[0]).__name__,
        )


def refuse_compiled(module: Any) -> None:
    """Raise an error if ``torch.compile`` has replaced a module or one inside it, which cannot be exported."""
    for path, part in module.named_modules():
        name = type(getattr(part, "_orig_mod", part)).__name__ + (f"` in it, `{path}" if path else "")
        if type(part).__name__ == "OptimizedModule":
            raise UserError(f"`{name}` is wrapped by torch.compile: give the module itself (its `_orig_mod`).")
        if getattr(part, "_compiled_call_impl", None) is not None:
            raise UserError(f"`{name}` was compiled by its method `compile`: give a module that was not.")


def check_run(module: Any, call: TorchCall, *, name: str, state: ModuleState) -> CheckedRun:
    """Run a module, and raise if an import of it would lose something.

    Args:
        module: The module, in inference mode.
        call: Its arguments.
        name: The module in messages.
        state: The state of the module before the run; the caller restores it.

    Raises:
        UserError: The module writes a parameter or a buffer, a second run computes something else than the first one,
            because of random numbers too, or there is no tensor among its results.
    """
    first, tensors, has_aliases = _watched_run(module, call)
    if written := state.written_tensors():
        raise UserError(
            f"`{name}` writes `{written[0]}` when it runs, and an imported network keeps nothing from one run to the "
            f"next; {ADVICE}."
        )
    changed = state.changed_attributes()
    if changed or isinstance(module, torch.jit.ScriptModule):
        state.restore_random()
        second, _ = _run(module, call)
        if not _agree(first, second):
            raise UserError(
                f"A second run of `{name}` computes something else than the first one, because it keeps "
                f"{_listed(changed)} from one run to the next; {ADVICE}."
            )
    if state.has_drawn():
        other, _ = _run(module, call)
        if not _agree(first, other):
            raise UserError(
                f"`{name}` computes something else each time it runs, because it draws random numbers even after "
                "`eval()`; draw them in training only, as `F.dropout(x, training=self.training)` does."
            )
    if not tensor_results(first):
        raise UserError(f"`{name}` returns no tensor; return a tensor, or a tuple, list or dict of tensors.")
    _tell(name, first, call=call, tensors=tensors)
    arrays = [to_array(tensor) for tensor in tensor_results(first)]
    return CheckedRun(arrays, TorchForm.of(module, call, first), has_aliases)


def _watched_run(module: Any, call: TorchCall) -> tuple[Any, tuple[torch.Tensor, ...], bool]:
    with AliasReads() as reads:
        results, tensors = _run(module, call)
        reads.read(results)
    return results, tensors, reads.found


def _run(module: Any, call: TorchCall) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Return the results of a run, and the tensors that it received."""
    tensors = call.copies()
    by_position, by_name = call.arguments(tensors)
    return module(*by_position, **by_name), tensors


def _agree(first: Any, second: Any) -> bool:
    pairs = list(zip(tensor_results(first), tensor_results(second), strict=False))
    return all(_is_close(one, other) for one, other in pairs)


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if is_same(one, other) or one.shape != other.shape or not one.is_floating_point():
        return is_same(one, other)
    scale = float(one.abs().nan_to_num(0, 0, 0).max()) if one.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True))


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:3]) or "an attribute"


def _tell(name: str, results: Any, *, call: TorchCall, tensors: tuple[torch.Tensor, ...]) -> None:
    """Print a notice for what an imported network does not do."""
    originals = call.tensors.items()
    written = [key for (key, before), after in zip(originals, tensors, strict=True) if not is_same(before, after)]
    if written:
        _notices.warning(
            "`%s` writes its input `%s`; the imported network leaves its inputs as they are.", name, written[0]
        )
    others = [key for key, value in named_results(results) if not isinstance(value, torch.Tensor)]
    if others:
        _notices.warning("`%s` returns `%s`, which is no tensor; an export leaves it out.", name, "`, `".join(others))
