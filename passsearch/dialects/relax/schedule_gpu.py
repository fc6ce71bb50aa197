"""A schedule for GPUs: of DLight's rules, the one that each kernel is to have, and tiles for its products.

Imports only TVM, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight import gpu

SCHEDULED = "tirx.is_scheduled"
ORDER = ("Matmul", "GEMV", "Reduction", "GeneralReduction", "Fallback")
"""Rules in TVM's order: the first that fits a kernel schedules it."""


def ScheduleGPU(  # noqa: N802
    rule: str | None = None, tile: str | None = None, kernels: dict[str, dict[str, str | None]] | None = None
) -> Any:
    """Return a pass that schedules every function of loops for a GPU by DLight's rules.

    The rules are tried in TVM's order, except that ``GeneralReduction`` leaves sums of products alone: it gives every
    result a block of threads, which is far too much for the nine products of a depthwise convolution.

    Args:
        rule: Name of the rule that is tried first.
        tile: Tile of a product by ``Matmul``, for example ``8x16x4x4x16``: rows and columns of threads, rows and
            columns of results of one thread, and steps of the sum that are in shared memory together.
        kernels: Other values of ``rule`` and ``tile`` by name of the function.

    Raises:
        ValueError: There is no such rule or tile.
    """
    defaults: dict[str, str | None] = {"rule": rule, "tile": tile}
    own = kernels or {}

    def run(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "gpu" not in target.keys:
            return module
        # FuseTIR makes functions of the groups of FuseOps. After this pass it would drop schedules (``fuse_tir.cc``).
        module = relax.transform.FuseTIR()(module).clone()
        scheduled = {}
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not (function.attrs and SCHEDULED in function.attrs):
                scheduled[name] = _schedule(function, target, **{**defaults, **own.get(name.name_hint, {})})
        for name, function in scheduled.items():
            module[name] = function
        return module

    for settings in (defaults, *({**defaults, **each} for each in own.values())):
        _rules(**settings)
    return tvm.transform.module_pass(run, opt_level=0, name="ScheduleGPU")


def _schedule(function: Any, target: Any, *, rule: str | None, tile: str | None) -> Any:
    """Return a function as the first rule that fits schedules it; itself if none fits."""
    for each in _rules(rule=rule, tile=tile):
        if isinstance(each, gpu.GeneralReduction) and rule != "GeneralReduction" and _sums_products(function):
            continue
        found = each.apply(function, target, False)
        if found is not None:
            schedule = found if isinstance(found, s_tir.Schedule) else found[0]
            return schedule.mod["main"].with_attr(SCHEDULED, True)
    return function


def _rules(*, rule: str | None, tile: str | None) -> list[Any]:
    if rule is not None and rule not in ORDER:
        raise ValueError(f"DLight has no rule `{rule}` for ScheduleGPU; use one of {', '.join(ORDER)}")
    names = ORDER if rule is None else (rule, *(name for name in ORDER if name != rule))
    return [_TiledMatmul(tile) if name == "Matmul" and tile is not None else getattr(gpu, name)() for name in names]


class _TiledMatmul(gpu.Matmul):  # type: ignore[misc]
    """DLight's rule for products with another tile."""

    def __init__(self, tile: str) -> None:
        super().__init__()
        numbers = tile.split("x")
        if len(numbers) != 5 or not all(number.isdigit() and int(number) for number in numbers):
            raise ValueError(f"`{tile}` is no tile of ScheduleGPU; a tile has five numbers, for example 8x16x4x4x16")
        self._numbers = list(map(int, numbers))

    def get_configs(self, target: Any) -> Any:
        """Return TVM's settings for a target with this tile."""
        config = super().get_configs(target)
        config.block_size_x, config.block_size_y, config.micro_size_x, config.micro_size_y, config.micro_size_k = (
            self._numbers
        )
        return config


def _sums_products(function: Any) -> bool:
    """Return True for a function that adds up products, and not single values."""
    found = False

    def visit(block: Any) -> None:
        nonlocal found
        found |= block.init is not None and len(block.reads) > 1

    tvm_ffi.structural_walk(function.body, (s_tir.stmt.SBlock, visit))
    return found
