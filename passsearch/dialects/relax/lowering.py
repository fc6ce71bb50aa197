"""What turns a module of any phase into one that TVM's virtual machine can run.

Imports nothing but TVM: an exported deployment script carries a copy of this file.
"""

import json
from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import transform

ALLOCATIONS = ("relax.builtin.alloc_tensor", "relax.memory.alloc_storage")
ZERO, DEFAULT = 1, 3
"""Build levels: TVM's ``zero`` pipeline, and its default one for the target; level 0 is the lowering alone."""


def lowered(module: tvm.IRModule, *, level: int, target: tvm.target.Target) -> tvm.IRModule:
    """Run TVM's pipeline of a level, the lowering included; the target and the context are the caller's to enter."""
    if level >= DEFAULT:
        return relax.get_default_pipeline(target)(module)
    if planned(module):
        # What is a view by now would become a copy.
        return tvm.transform.Sequential(_virtual_machine())(module)
    first = [relax.get_pipeline("zero")] if level == ZERO else []
    plan = [transform.StaticPlanBlockMemory()] if level == ZERO else []
    dispatched = relax.pipeline.library_dispatch_passes(target)
    passes = [*dispatched, *first, *legalization(target), *to_calls(), *plan, *_virtual_machine()]
    return tvm.transform.Sequential(passes)(module)


def planned(module: tvm.IRModule) -> bool:
    """Whether calls write into memory that is allocated before already."""
    found = []

    def visit(call: relax.Call) -> None:
        if isinstance(call.op, tvm.ir.Op) and str(call.op.name) in ALLOCATIONS:
            found.append(call)

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return bool(found)


def legalization(target: tvm.target.Target) -> Sequence[tvm.transform.Pass]:
    """Every operator as a function of loops; on a GPU each bound to threads, or there is no kernel."""
    # FuseOps leaves calls of functions that only FuseTIR makes kernels of.
    passes = [transform.LegalizeOps(), transform.FuseTIR()]
    return [*passes, *fallback(target)]


def fallback(target: tvm.target.Target) -> Sequence[tvm.transform.Pass]:
    """The schedule of whatever has none, where code cannot be generated without."""
    if "gpu" not in target.keys:
        return ()
    from tvm.s_tir import dlight

    return (dlight.ApplyDefaultSchedule(dlight.gpu.Fallback()),)


def to_calls() -> Sequence[tvm.transform.Pass]:
    """Calls that write into what was allocated before: the form in which memory is planned."""
    return (
        transform.RewriteDataflowReshape(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
    )


def _virtual_machine() -> Sequence[tvm.transform.Pass]:
    """From allocations to what the virtual machine has, as ``relax/backend/cpu_generic/pipeline.py`` finalizes."""
    return (
        transform.LowerAllocTensor(),
        transform.KillAfterLastUse(),
        transform.LowerRuntimeBuiltin(),
        transform.ComputePrimValue(),
        transform.VMShapeLower(),
        transform.AttachGlobalSymbol(),
    )


def target_options(text: str) -> str | dict[str, object]:
    """What TVM's ``Target`` takes: of a target written as options (``llvm -mcpu=…``) a dictionary."""
    if text.startswith("{"):
        found: dict[str, object] = json.loads(text)
        return found
    kind, *options = text.split()
    if not options:
        return text
    pairs = (option.lstrip("-").partition("=") for option in options)
    return {"tag" if "/" in kind else "kind": kind, **{name: _value(name, value) for name, _, value in pairs}}


def _value(name: str, text: str) -> object:
    if name in ("mattr", "keys", "libs"):
        return text.split(",")
    return int(text) if text.isdigit() else text
