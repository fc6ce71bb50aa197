"""The rule for products of matrices by tensor cores: in 16 bits or TF32 with sums in float32, in 8 bits in int32."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight.analysis import get_root_block
from tvm.s_tir.dlight.gpu.matmul import get_index_map, get_reduction_blocks

from .instructions import TYPES, VECTOR_BYTES, bytes_of, keep_in_registers, steps_of, sums_of
from .sums import is_bound, is_sum_innermost, multiplies_and_adds, normalise
from .tensor_tiles import MOST_SHARED_BYTES, TensorTile, usual_tensor_tile
from .vectors import has_wide_indices

FIRST = {"float16": 75, "bfloat16": 80, "float32": 80, "int8": 80, "uint8": 80}
"""The first compute capability, times ten, whose tensor cores multiply a type, float32 as TF32.

Those of sm_75 multiply 8 bits too, by an instruction of other tiles (``mma.m8n8k16``).
"""

AMPERE = 80
"""The first compute capability, times ten, that adds 16 terms at once, and copies into shared memory on its own."""


class TensorProducts:
    """A rule for products of matrices of fixed sizes in float16, bfloat16 or 8 bits, and in float32 as TF32 if allowed.

    Sums of floats are float32, whatever the function says, and rounded once. The tensor cores of an A100 add them so at
    the same rate (NVIDIA A100 Tensor Core GPU Architecture, 2020). Sums of integers are int32; either factor
    may have a sign.
    """

    def __init__(self, tile: TensorTile | None = None, *, has_tf32: bool = False) -> None:
        """Prepare the rule.

        Args:
            tile: The tile; ``None`` for the one that suits the sizes.
            has_tf32: True if factors in float32 may be rounded to TF32.
        """
        self.tile, self.has_tf32 = tile, has_tf32

    def apply(self, function: Any, target: Any, _: bool) -> Any:
        """Return the schedule of a function, or ``None`` for one that is no such product."""
        try:
            schedule = self.schedule(function, capability(target))
        except (s_tir.ScheduleError, AssertionError):  # what comes after the sum cannot be moved into its loops
            return None
        return schedule and s_tir.Schedule(keep_in_registers(schedule.mod["main"]))

    def schedule(self, function: Any, capability: int) -> Any:
        """Return a schedule whose tiles in registers are those of a whole warp, as instructions describe them.

        Its vectors are the longest that TVM has CUDA code for; ``None`` if there is no such schedule.

        Raises:
            tvm.s_tir.ScheduleError: What comes after the sum cannot be moved into its loops.
        """
        for shorter in ((1, 1), (2, 1), (2, 2), (4, 4)):
            schedule = self._schedule(function, capability, shorter)
            if schedule is None or not has_wide_indices(schedule.mod["main"]):
                return schedule
        return None

    def _schedule(self, function: Any, capability: int, shorter: tuple[int, int]) -> Any:
        """Return a schedule whose vectors of A and B are so many times shorter than the longest.

        Raises:
            tvm.s_tir.ScheduleError: What comes after the sum cannot be moved into its loops.
        """
        schedule = s_tir.Schedule(function)
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if sums is None:
            return None
        block = schedule.get(sums[0])
        if not multiplies_and_adds(block) or get_index_map(block) is None:
            return None
        dtypes = [str(each.source.dtype) for each in block.reads]
        fixed = all(isinstance(each.dom.extent, tirx.IntImm) for each in block.iter_vars)
        if not fixed or not self._has_instruction(dtypes, str(block.writes[0].source.dtype), capability):
            return None
        if str(block.writes[0].source.dtype) != sums_of(dtypes[0]):
            schedule = s_tir.Schedule(_add_in_float32(schedule, sums[0]))
        (main,) = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        inner = [is_sum_innermost(schedule.get(main), place) for place in (0, 1)]
        normalise(schedule, main)
        sizes = [int(schedule.get(loop).extent) for loop in schedule.get_loops(main)]
        tile, item_bytes = self.tile or usual_tensor_tile(sizes, dtypes[0]), bytes_of(dtypes[0])
        if tile.shared_bytes(item_bytes) > MOST_SHARED_BYTES or tile.steps % steps_of(dtypes[0]):
            return None
        is_new = capability >= AMPERE
        steps = 32 // item_bytes if is_new else 8
        longest = VECTOR_BYTES // item_bytes
        most = (longest // shorter[0], longest // shorter[1])
        factors: Any = {"dtypes": tuple(dtypes), "steps": steps, "most": most}
        found = tile.apply(schedule, main, inner, has_copies=is_new, **factors)
        return found if found is not None and is_bound(found) else None

    def _has_instruction(self, dtypes: list[str], sum_type: str, capability: int) -> bool:
        """Return True if tensor cores multiply factors of these types; sums of floats are widened, others are not."""
        if len(dtypes) != 2 or not all(each in TYPES and capability >= FIRST[each] for each in dtypes):
            return False
        if all(sums_of(each) == "int32" for each in dtypes):
            return sum_type == "int32"
        return dtypes[0] == dtypes[1] and (self.has_tf32 or dtypes[0] != "float32")


def capability(target: Any) -> int:
    """Return ten times the compute capability of a CUDA target, as 80 for ``sm_80``; 0 for any other target."""
    arch = str(target.attrs.get("arch", "")) if target.kind.name == "cuda" else ""
    digits = arch.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) if digits.isdigit() else 0


def _add_in_float32(schedule: Any, main: Any) -> Any:
    """Return a function whose sum is float32, and rounded once to the type that it had, in a block of its own."""
    schedule.cache_write(main, 0, "global")
    narrow = schedule.get(main).writes[0].source
    wide = tirx.decl_buffer(list(narrow.shape), "float32", name=narrow.name)

    def change(node: Any) -> Any:
        if isinstance(node, tvm.ir.Var):
            return wide if node.same_as(narrow) else node
        if isinstance(node, tirx.BufferStore):
            return _widened(node, wide) if node.buffer.same_as(narrow) else node
        if not node.source.same_as(narrow):
            return node
        if isinstance(node, tvm.ir.TensorRegion):
            return tirx.BufferRegion(wide, node.region)
        return tirx.Cast(str(narrow.dtype), tirx.BufferLoad(wide, list(node.indices)))

    kinds = (tvm.ir.Var, tvm.ir.TensorLoad, tvm.ir.TensorRegion, tirx.BufferStore)
    function = schedule.mod["main"]
    return function.with_body(tvm_ffi.structural_map(function.body, (kinds, change), order="pre"))


def _widened(store: Any, sums: Any) -> Any:
    """Return a store of 0, or of a further product, to sums in float32."""
    indices = list(store.indices)
    if not isinstance(store.value, tirx.Add):
        return tirx.BufferStore(sums, tirx.FloatImm("float32", 0.0), indices)
    product = next(each for each in (store.value.a, store.value.b) if isinstance(each, tirx.Mul))
    wide = tirx.Cast("float32", product.a) * tirx.Cast("float32", product.b)
    return tirx.BufferStore(sums, tirx.BufferLoad(sums, indices) + wide, indices)
