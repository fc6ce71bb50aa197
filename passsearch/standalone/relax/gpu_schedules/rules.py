"""The pass, and its rules: what is tried for a kernel, and in which order."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight import gpu
from tvm.s_tir.dlight.analysis import get_root_block
from tvm.s_tir.dlight.gpu.matmul import auto_inline_producers, get_index_map, get_reduction_blocks

from .sums import (
    count_terms,
    has_groups,
    is_bound,
    is_sum_innermost,
    multiplies_and_adds,
    normalise,
    sum_in_threads,
    sums_products,
)
from .tensor_products import AMPERE, TensorProducts, capability
from .tensor_tiles import parse_tensor_tile
from .tiles import Tile, parse_tile, usual_tile

SCHEDULED = "tirx.is_scheduled"
ORDER = ("Matmul", "GEMV", "Reduction", "GeneralReduction", "Fallback")
"""DLight's rules in TVM's order: the first that fits a kernel schedules it."""

PRECISIONS = (FLOAT32, TF32) = ("float32", "tf32")
"""What factors in float32 are multiplied as."""

FEW_TERMS = 32
"""Terms up to which a sum is short: a depthwise convolution of 5 by 5 has 25."""


def ScheduleGPU(  # noqa: N802
    rule: str | None = None,
    kernels: dict[str, dict[str, str | None]] | None = None,
    precision: str = FLOAT32,
) -> Any:
    """Return a pass that schedules every function of loops for a GPU.

    Sums of products that can be written as a product of matrices, convolutions among them, are computed in tiles: in
    8 or 16 bits or TF32 by tensor cores, as ``TensorTile`` says, and others as ``Tile`` says. Short sums are computed
    by one thread each. For all other functions DLight's rules are tried in TVM's order, except that
    ``GeneralReduction`` leaves sums of products alone: it gives every result a block of threads, which is far too much
    for the nine products of a depthwise convolution. ``Reduction`` leaves convolutions of groups alone.

    Args:
        rule: What is tried first: one of DLight's rules, or a tile such as ``8x16x2x2x32x4``, ``8x16x4x4x16x4v``
            or ``2x4x64x32x32x1t``.
        kernels: Another value of ``rule`` by name of the function, as ``{"matmul": {"rule": "GEMV"}}``.
        precision: What factors in float32 are multiplied as: ``float32``, or ``tf32`` (10 bits after the point) by
            tensor cores, from sm_80 on.

    Raises:
        ValueError: There is no such rule, tile, kernel or precision, a kernel has another setting, or the target has
            no TF32.
    """
    own = {name: settings.get("rule", rule) for name, settings in (kernels or {}).items()}
    _check_arguments([rule, *own.values()], kernels or {}, precision)
    has_tf32 = precision == TF32

    def run(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "gpu" not in target.keys:
            return module
        if has_tf32 and capability(target) < AMPERE:
            raise ValueError(f"`{target}` has no tensor cores for TF32: use precision float32, or sm_80 or later")
        # FuseTIR makes functions of the groups of FuseOps. After this pass it would drop schedules (``fuse_tir.cc``).
        module = relax.transform.FuseTIR()(module).clone()
        if missing := own.keys() - {name.name_hint for name, _ in module.functions_items()}:
            raise ValueError(f"no function `{min(missing)}` to schedule")
        scheduled = {}
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not (function.attrs and SCHEDULED in function.attrs):
                each = own.get(name.name_hint, rule)
                scheduled[name] = _schedule(function, target, each, has_tf32=has_tf32)
        for name, function in scheduled.items():
            module[name] = function
        return module

    return tvm.transform.module_pass(run, opt_level=0, name="ScheduleGPU")


def _check_arguments(rules: list[str | None], kernels: dict[str, dict[str, str | None]], precision: str) -> None:
    unknown = {name for settings in kernels.values() for name in settings} - {"rule"}
    if unknown:
        raise ValueError(f"ScheduleGPU has no setting `{min(unknown)}` of kernels; use `rule`")
    if precision not in PRECISIONS:
        raise ValueError(f"ScheduleGPU has no precision `{precision}`; use {' or '.join(PRECISIONS)}")
    for each in rules:
        _rules(each)


def _schedule(function: Any, target: Any, rule: str | None, *, has_tf32: bool) -> Any:
    """Return a function as the first rule that fits schedules it; itself if none fits."""
    for each in _rules(rule, has_tf32=has_tf32):
        if isinstance(each, gpu.GeneralReduction) and rule != "GeneralReduction" and sums_products(function):
            continue
        # DLight takes such a sum without padding for several sums of a row, and TVM refuses its schedule (0.27).
        if isinstance(each, gpu.Reduction) and rule != "Reduction" and has_groups(function):
            continue
        found = each.apply(function, target, False)
        if found is not None:
            schedule = found if isinstance(found, s_tir.Schedule) else found[0]
            return schedule.mod["main"].with_attr(SCHEDULED, True)
    return function


def _rules(rule: str | None, *, has_tf32: bool = False) -> list[Any]:
    others = [getattr(gpu, name)() for name in ORDER if name != rule]
    if rule in ORDER:
        return [getattr(gpu, rule)(), *others]
    if rule is None:
        return [TensorProducts(has_tf32=has_tf32), Products(None), _ShortSums(), *others]
    if (tensor_tile := parse_tensor_tile(rule)) is not None:
        return [TensorProducts(tensor_tile, has_tf32=has_tf32), *_rules(None)[1:]]
    tile = parse_tile(rule)
    if tile is None:
        raise ValueError(
            f"ScheduleGPU has no rule `{rule}`; use {', '.join(ORDER)}, or a tile of six numbers such as "
            "8x16x2x2x32x1. In a tile that ends with v, such as 8x16x4x4x16x1v, steps are a multiple of 4; rows and "
            "columns of a thread are 1, 2 or a multiple of 4. A tile for tensor cores ends with t, such as "
            "2x4x64x32x32x1t: warps, results of a warp and steps, these in multiples of 16, in 48 KiB of shared memory"
        )
    return [Products(tile), *others]


class Products:
    """A rule for sums of products, such as products of matrices and convolutions."""

    def __init__(self, tile: Tile | None) -> None:
        """Prepare the rule.

        Args:
            tile: The tile; ``None`` for the one that suits most products of the same sizes.
        """
        self.tile = tile

    def apply(self, function: Any, _target: Any, _: bool) -> Any:
        """Return the schedule of a function, or ``None`` for one that is no sum of products of this form."""
        try:
            return self._schedule(s_tir.Schedule(function))
        except (s_tir.ScheduleError, AssertionError):  # what comes after the sum cannot be moved into its loops
            return None

    def _schedule(self, schedule: Any) -> Any:
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if sums is None:
            return None
        (main,) = sums
        if not multiplies_and_adds(schedule.get(main)) or get_index_map(schedule.get(main)) is None:
            return None
        # What has 8 or 16 bits and none of our tiles for tensor cores is left to DLight's rule for these.
        if self.tile is None and any(each.source.dtype.bits < 32 for each in schedule.get(main).reads):
            return None
        inner = [is_sum_innermost(schedule.get(main), place) for place in (0, 1)]
        normalise(schedule, main)
        sizes = [schedule.get(loop).extent for loop in schedule.get_loops(main)]
        found = (self.tile or usual_tile(sizes)).apply(schedule, main, inner)
        return found if found is not None and is_bound(found) else None


class _ShortSums:
    """A rule for sums of few terms with operators behind them, such as depthwise convolutions.

    A thread computes one result, and what comes after it. DLight's ``Fallback`` makes two kernels of them, the second
    of which reads from memory what the first has written.
    """

    def apply(self, function: Any, _target: Any, _: bool) -> Any:
        """Return the schedule of a function, or ``None`` for one that is none of these."""
        schedule = s_tir.Schedule(function)
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if sums is None:
            return None
        (main,) = sums
        if len(schedule.get(main).writes) != 1 or not 0 < count_terms(schedule.get(main)) <= FEW_TERMS:
            return None
        auto_inline_producers(schedule, main)
        try:
            return schedule if sum_in_threads(schedule, main) and is_bound(schedule) else None
        except s_tir.ScheduleError:
            return None
