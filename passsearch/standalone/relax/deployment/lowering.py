"""Lowering of a module of any phase to a module that TVM's virtual machine can run."""

import json
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import transform

ALLOCATIONS = ("relax.builtin.alloc_tensor", "relax.memory.alloc_storage")
"""Operators that only a module with planned or explicit memory calls."""

ZERO, DEFAULT = 1, 3
"""Build levels: TVM's ``zero`` pipeline, and its default pipeline for the target. Level 0 is the lowering alone."""


def lower(module: tvm.IRModule, *, level: int, target: tvm.target.Target) -> tvm.IRModule:
    """Return the module after TVM's pipeline of a level and the lowering; the caller enters target and context."""
    if level >= DEFAULT:
        return relax.get_default_pipeline(target)(module)
    if has_memory_plan(module):
        # Earlier lowering passes would turn views, which share the memory of their operand, into copies.
        return tvm.transform.Sequential(_finalize())(module)
    first = [relax.get_pipeline("zero")] if level == ZERO else []
    plan = [transform.StaticPlanBlockMemory()] if level == ZERO else []
    dispatch = relax.pipeline.library_dispatch_passes(target)
    passes = [*dispatch, *first, *_legalize(target), *_write_into_allocations(), *plan, *_finalize()]
    return tvm.transform.Sequential(passes)(module)


def has_memory_plan(module: tvm.IRModule) -> bool:
    """Return True if calls write into memory that the module itself allocates."""
    allocations = []

    def visit(call: relax.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and str(call.op.name) in ALLOCATIONS:
            allocations.append(call)

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return bool(allocations)


def _legalize(target: tvm.target.Target) -> Sequence[tvm.transform.Pass]:
    """Return passes that make loops of every operator, and on a GPU bind them to threads."""
    # FuseOps leaves calls of functions; only FuseTIR makes kernels of them.
    passes = [transform.LegalizeOps(), transform.FuseTIR()]
    return [*passes, *_fallback_schedule(target)]


def _fallback_schedule(target: tvm.target.Target) -> Sequence[tvm.transform.Pass]:
    """Return the pass that schedules every unscheduled function, if the target cannot run plain loops."""
    if "gpu" not in target.keys:
        return ()
    from tvm.s_tir import dlight

    return (dlight.ApplyDefaultSchedule(dlight.gpu.Fallback()),)


def _write_into_allocations() -> Sequence[tvm.transform.Pass]:
    """Return passes that make every call write into memory allocated before it, as memory planning needs it."""
    return (
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
    )


def _finalize() -> Sequence[tvm.transform.Pass]:
    """Return the passes from allocations to the virtual machine's instructions."""
    # ``finalize_passes`` of TVM's ``relax/backend/cpu_generic/pipeline.py``, without its memory planning.
    return (
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    )


def target_options(text: str) -> str | dict[str, object]:
    """Return the argument of TVM's ``Target`` for a target text: a kind or tag with options, or JSON.

    TVM 0.27 does not parse options (``llvm -mcpu=…``) any more, so they are returned as a dictionary.
    """
    if text.startswith("{"):
        options: dict[str, object] = json.loads(text)
        return options
    kind, *words = text.split()
    if not words:
        return text
    pairs = (word.lstrip("-").partition("=") for word in words)
    # The name of a tag has a slash (``nvidia/nvidia-a100``), that of a kind has none.
    return {"tag" if "/" in kind else "kind": kind, **{name: _option(name, value) for name, _, value in pairs}}


def _option(name: str, text: str) -> object:
    if name in ("mattr", "keys", "libs", "cl-opt"):
        return text.split(",")
    return int(text) if text.isdigit() else text
