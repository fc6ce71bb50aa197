"""What a build has lowered a network to: two builds with the same kernels called in the same order run alike."""

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax


def kernels_digest(lowered: tvm.IRModule) -> str:
    """TVM's hash of the lowered module, values of constants left out."""
    return f"{tvm_ffi.structural_hash(lowered, skip_tensor_content=True):016x}"


def planned_bytes(lowered: tvm.IRModule) -> int | None:
    """Storage that the module allocates for a run; ``None`` where its size is not known before."""
    total, known = 0, True

    def visit(call: relax.Call) -> None:
        nonlocal total, known
        if getattr(call.op, "name", "") != "relax.vm.alloc_storage":
            return
        size = _bytes(call)
        total, known = total + (size or 0), known and size is not None

    for _, function in lowered.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(
                function, lambda each: visit(each) if isinstance(each, relax.Call) else None
            )
    return total if known else None


def _bytes(call: Any) -> int | None:
    """Of one allocation: its shape is in bytes."""
    shape = call.args[0]
    sizes = (
        [int(size) for size in shape.values if isinstance(size, tvm.tirx.IntImm)] if hasattr(shape, "values") else []
    )
    return math.prod(sizes) if sizes and len(sizes) == len(shape.values) else None
