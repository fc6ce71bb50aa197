"""The kernels that a build lowered a network to. Two builds with the same kernels in the same order run alike."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir

from passsearch.dialects.contract import KernelCost
from passsearch.dialects.relax.code_size import code_bytes
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.standalone.relax.cpu_schedules import PACKED
from passsearch.standalone.relax.deployment.code_generation import are_independent


def kernels_digest(lowered: tvm.IRModule) -> str:
    """Return TVM's hash of the lowered module, without the values of constants."""
    # Two networks that differ in their weights only run alike.
    return f"{tvm_ffi.structural_hash(lowered, skip_tensor_content=True):016x}"


def kernel_hashes(lowered: tvm.IRModule) -> dict[str, str]:
    """Return the hash of each kernel of the lowered module, by its name."""
    # A function's name is an attribute as well, and differs between builds of equal kernels.
    # The pattern is a note for fusion, which is over, and no part of the code.
    plain = {
        name: function.without_attr("global_symbol").without_attr("op_pattern")
        for name, function in _kernels(lowered).items()
    }
    return {name: f"{tvm_ffi.structural_hash(function):016x}" for name, function in plain.items()}


def kernel_costs(lowered: tvm.IRModule, library: Path | None = None) -> dict[str, KernelCost]:
    """Return the cost of each kernel of the lowered module, by its name; kernels of open sizes are left out.

    Args:
        lowered: The module.
        library: Its library for a CPU, which tells the size of the code.
    """
    kernels = _kernels(lowered)
    # Kernels that need each other are one module, in which their code is mixed.
    sizes = {} if library is None or not are_independent(lowered, kernels) else code_bytes(library)
    costs = {name.removesuffix(PACKED): _cost(function) for name, function in kernels.items()}
    return {name: replace(cost, code_bytes=sizes.get(name)) for name, cost in costs.items() if cost is not None}


def _cost(function: tvm.tirx.PrimFunc) -> KernelCost | None:
    try:
        # TVM's estimate knows no local variables; the sum of both expressions has one operation more.
        plain = tvm_ffi.structural_map(function, (tvm.tirx.Let, lambda node: tvm.tirx.Add(node.value, node.body)))
        flops = s_tir.analysis.estimate_tir_flops(tvm.IRModule({"main": plain}))
        tensors = [(parameter.shape, str(parameter.dtype)) for parameter in function.params]
        return KernelCost(flops, sum(_tensor_bytes(shape, kind) for shape, kind in tensors))
    except COMPILER_ERRORS:  # a parameter or a loop whose size is no number
        return None


def _tensor_bytes(shape: Any, kind: str) -> int:
    return math.prod(int(size) for size in shape) * np.dtype(kind).itemsize


def _kernels(lowered: tvm.IRModule) -> dict[str, tvm.tirx.PrimFunc]:
    return {
        variable.name_hint: function
        for variable, function in lowered.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def count_launches(lowered: tvm.IRModule) -> int:
    """Return the number of kernels that one call of the lowered module starts on a GPU.

    Of several functions, and of the branches of a condition, it is that which starts most.
    """
    counts: dict[str, int] = {}

    def count(value: Any) -> int:
        if isinstance(value, tvm.ir.GlobalVar):
            if value.name_hint not in counts:
                counts[value.name_hint] = 0  # what calls itself
                function = lowered[value]
                is_kernel = isinstance(function, tvm.tirx.PrimFunc)
                counts[value.name_hint] = (
                    _loops_in_threads(function.body) if is_kernel else count(getattr(function, "body", None))
                )
            return counts[value.name_hint]
        if isinstance(value, relax.SeqExpr):
            bound = (each.value for block in value.blocks for each in block.bindings)
            return sum(map(count, bound)) + count(value.body)
        if isinstance(value, relax.If):
            return max(count(value.true_branch), count(value.false_branch))
        if isinstance(value, relax.Call):
            # Kernels of open sizes and recorded functions are arguments of what calls them.
            return sum(map(count, (value.op, *value.args)))
        return sum(map(count, value.fields)) if isinstance(value, relax.Tuple) else 0

    functions = [name for name, function in lowered.functions_items() if isinstance(function, relax.Function)]
    return max(map(count, functions), default=0)


def _loops_in_threads(statement: Any) -> int:
    """Return the number of outermost loops whose rounds are blocks or threads of a GPU: one kernel each."""
    if isinstance(statement, tvm.tirx.For) and statement.thread_binding is not None:
        return 1
    parts = statement.seq if isinstance(statement, tvm.tirx.SeqStmt) else []
    inner = [getattr(statement, name, None) for name in ("block", "body", "then_case", "else_case")]
    return sum(_loops_in_threads(each) for each in [*parts, *inner] if each is not None)


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
