"""The kernels that a build lowered a network to. Two builds with the same kernels in the same order run alike."""

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax


def kernels_digest(lowered: tvm.IRModule) -> str:
    """Return TVM's hash of the lowered module, without the values of constants."""
    # Two networks that differ in their weights only run alike.
    return f"{tvm_ffi.structural_hash(lowered, skip_tensor_content=True):016x}"


def kernel_hashes(lowered: tvm.IRModule) -> dict[str, str]:
    """Return the hash of each kernel of the lowered module, by its name."""
    kernels = {
        variable.name_hint: function
        for variable, function in lowered.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }
    # A function's name is an attribute as well, and differs between builds of equal kernels.
    # The pattern is a note for fusion, which is over, and no part of the code.
    plain = {
        name: function.without_attr("global_symbol").without_attr("op_pattern") for name, function in kernels.items()
    }
    return {name: f"{tvm_ffi.structural_hash(function):016x}" for name, function in plain.items()}


def planned_bytes(lowered: tvm.IRModule) -> int | None:
    """Return the bytes the module allocates for a run; ``None`` if a size depends on the inputs."""
    total, is_static = 0, True

    def visit(call: relax.Call) -> None:
        nonlocal total, is_static
        if getattr(call.op, "name", "") != "relax.vm.alloc_storage":
            return
        size = _allocation_bytes(call)
        total, is_static = total + (size or 0), is_static and size is not None

    for _, function in lowered.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(
                function, lambda expression: visit(expression) if isinstance(expression, relax.Call) else None
            )
    return total if is_static else None


def _allocation_bytes(call: Any) -> int | None:
    """Return the size of one allocation, ``None`` if it is not static."""
    shape = call.args[0]  # in bytes
    sizes = (
        [int(size) for size in shape.values if isinstance(size, tvm.tirx.IntImm)] if hasattr(shape, "values") else []
    )
    return math.prod(sizes) if sizes and len(sizes) == len(shape.values) else None
