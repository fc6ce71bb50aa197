"""Relax passes whose TVM constructors take more than plain values, or that need another pass before or after them.

All constructors here take JSON arguments only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.relax import transform

_LIBRARIES = {
    "cublas": "cuda",
    "cudnn": "cuda",
    "cutlass": "cuda",
    "hipblas": "rocm",
    "tensorrt": "contrib",
    "nnapi": "contrib",
}
"""Folder of ``tvm.relax.backend`` with each library's patterns."""

_RECORDS = "database_tuning_record.json"
_DATABASE = ("database_workload.json", _RECORDS)

_ATTENTION = "passsearch.attention"
"""Attribute of a function that ``FuseAttention`` made."""

_LEAST_DIGITS = 8
"""Fewest hexadecimal digits that identify a database's records."""


def _pass(name: str, change: Callable[[Any], Any], *, opt_level: int = 0) -> Any:
    return tvm.transform.module_pass(lambda module, _context: change(module), opt_level=opt_level, name=name)


def _apply_all(module: Any, passes: Sequence[Any]) -> Any:
    for transform_pass in passes:
        module = transform_pass(module)
    return module


def _target_is(kind: str) -> bool:
    """Return True if the current target is of this kind: ``cpu``, ``gpu`` or ``cuda``."""
    return kind in tvm.target.Target.current(allow_none=False).keys


# Operators.


def FoldBatchnormToConv2D() -> Any:  # noqa: N802
    """Return ``relax.transform.FoldBatchnormToConv2D``; a module with a batch norm of 16 bits stays as it is.

    TVM adds the epsilon to the variance in 32 bits, and refuses to multiply weights of 16 by the result.
    """
    fold = transform.FoldBatchnormToConv2D()
    return _pass("FoldBatchnormToConv2D", lambda module: module if _has_narrow_norm(module) else fold(module))


def _has_narrow_norm(module: Any) -> bool:
    types: list[str] = []

    def visit(call: Any) -> None:
        if getattr(call.op, "name", "") == "relax.nn.batch_norm":
            types.append(str(call.args[0].ty.dtype))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return any("16" in dtype for dtype in types)


def FuseTransposeMatmul() -> Any:  # noqa: N802
    """Return ``relax.transform.FuseTransposeMatmul``, followed by removal of the transposes that nothing reads then."""
    passes = (transform.FuseTransposeMatmul(), transform.DeadCodeElimination())
    return _pass("FuseTransposeMatmul", lambda module: _apply_all(module, passes))


# Schedules.


def CpuGEMV() -> Any:  # noqa: N802
    """Return DLight's rule for products with one vector, on a CPU, where its tiles divide the sizes.

    The rule's tiles have 64 or 128 numbers on both axes, and the outputs of a tile are one vector. Where a tile is
    larger than what is left of an axis, every number of that vector has a condition of its own. For a product of 128
    rows of 16 numbers LLVM then needs 10 s, and without conditions 0.1 s.
    """

    def schedule(module: Any) -> Any:
        if not _target_is("cpu"):
            return module
        rule = _dlight("cpu", "GEMV")()

        class WholeTiles(type(rule)):  # type: ignore[misc]
            """The rule, which leaves a function to other passes if its loops need conditions."""

            def apply(self, *arguments: Any) -> Any:
                """Return DLight's schedule; ``None`` if its loops need conditions.

                Args:
                    arguments: The arguments of ``ScheduleRule.apply``: function, target, and whether it may tune.
                """
                result = super().apply(*arguments)
                return None if result is None or _has_conditions(result.mod["main"]) else result

        return _apply_rules(module, [WholeTiles()])

    return _pass("dlight.cpu.GEMV", schedule)


def _has_conditions(function: Any) -> bool:
    """Return True if a block of a function runs only where a condition holds."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlockRealize, blocks.append))
    return any(not isinstance(block.predicate, tvm.tirx.IntImm) for block in blocks)


def CpuReduction() -> Any:  # noqa: N802
    """Return DLight's rule for reductions followed by maps, on a CPU."""
    return _rule("cpu", "Reduction")


def GpuMatmul() -> Any:  # noqa: N802
    """Return DLight's rule for products of matrices, on a GPU."""
    return _rule("gpu", "Matmul")


def GpuGEMV() -> Any:  # noqa: N802
    """Return DLight's rule for products with one vector, on a GPU."""
    return _rule("gpu", "GEMV")


def GpuLowBatchGEMV(bucket: int = 4) -> Any:  # noqa: N802
    """Return DLight's rule for products with a few vectors, on a GPU."""
    return _rule("gpu", "LowBatchGEMV", bucket)


def GpuReduction() -> Any:  # noqa: N802
    """Return DLight's rule for sums, on a GPU."""
    return _rule("gpu", "Reduction")


def GpuGeneralReduction() -> Any:  # noqa: N802
    """Return DLight's rule for chains of reductions, on a GPU."""
    return _rule("gpu", "GeneralReduction")


def GpuRMSNorm() -> Any:  # noqa: N802
    """Return DLight's rule for root mean square norms, on a GPU."""
    return _rule("gpu", "RMSNorm")


def GpuTranspose() -> Any:  # noqa: N802
    """Return DLight's rule for transposes, on a GPU."""
    return _rule("gpu", "Transpose")


def GpuFallback() -> Any:  # noqa: N802
    """Return DLight's rule for whatever is left, on a GPU."""
    return _rule("gpu", "Fallback")


def ApplyDefaultSchedule(rules: list[str]) -> Any:  # noqa: N802
    """Return DLight's pass with rules named like ``gpu.Matmul``; rules for another kind of device are skipped."""
    pairs = [tuple(rule.split(".")) for rule in rules]
    if wrong := [rule for rule, pair in zip(rules, pairs, strict=True) if len(pair) != 2]:
        raise ValueError(f"a rule has a device and a name, as in `gpu.Matmul`; got `{wrong[0]}`")

    def schedule(module: Any) -> Any:
        usable = [_dlight(device, name)() for device, name in pairs if _target_is("cpu" if device == "cpu" else "gpu")]
        return _apply_rules(module, usable) if usable else module

    return _pass("ApplyDefaultSchedule", schedule)


def DefaultGPUSchedule() -> Any:  # noqa: N802
    """Return ``s_tir.transform.DefaultGPUSchedule``; on a CPU it changes nothing."""

    def schedule(module: Any) -> Any:
        # On a CPU, TVM's pass would mark every function as scheduled without scheduling it.
        if not _target_is("gpu"):
            return module
        return tvm.s_tir.transform.DefaultGPUSchedule()(transform.FuseTIR()(module))

    return _pass("DefaultGPUSchedule", schedule)


def MetaScheduleApplyDatabase(work_dir: str, sha256: str, enable_warning: bool = False) -> Any:  # noqa: N802
    """Return ``relax.transform.MetaScheduleApplyDatabase``.

    Databases are identified by SHA-256: further tuning adds records in place, and then results of the search with the
    old records are not valid any more.

    Args:
        work_dir: Absolute path of the database's folder.
        sha256: The SHA-256 of its records file, or the first digits of it.
        enable_warning: Warn about functions that are not in the database.
    """

    # TVM's constructor needs the current target, so it is called when the pass runs.
    def schedule(module: Any) -> Any:
        folder = Path(work_dir)
        missing = [name for name in _DATABASE if not (folder / name).is_file()]
        if missing:  # TVM would create an empty database
            raise ValueError(f"no tuning database: `{work_dir}` has no {missing[0]}")
        if not folder.is_absolute():  # workers and exported scripts run in folders of their own
            raise ValueError(f"`{work_dir}` is not an absolute path")
        actual = hashlib.sha256((folder / _RECORDS).read_bytes()).hexdigest()
        if len(sha256) < _LEAST_DIGITS or not actual.startswith(sha256):
            raise ValueError(f"the sha256 of {_RECORDS} in `{work_dir}` is {actual}, not `{sha256}`")
        return transform.MetaScheduleApplyDatabase(work_dir, enable_warning)(module)

    return _pass("MetaScheduleApplyDatabase", schedule)


def SplitLayoutRewritePreproc() -> Any:  # noqa: N802
    """Return ``relax.transform.SplitLayoutRewritePreproc``, followed by ``FoldConstant`` for the part it splits off."""
    passes = (transform.SplitLayoutRewritePreproc(), transform.FoldConstant())
    return _pass("SplitLayoutRewritePreproc", lambda module: _apply_all(module, passes))


def _rule(device: str, name: str, *arguments: Any) -> Any:
    """Return a pass that applies one rule; on another kind of device it changes nothing."""

    def schedule(module: Any) -> Any:
        return _apply_rules(module, [_dlight(device, name)(*arguments)]) if _target_is(device) else module

    return _pass(f"dlight.{device}.{name}", schedule)


def _apply_rules(module: Any, rules: Sequence[Any]) -> Any:
    from tvm.s_tir import dlight

    class ExceptAttention(dlight.ScheduleRule):  # type: ignore[misc]
        """A rule that leaves an attention to ``ScheduleCPU``: under each row, all its keys would be packed again."""

        def __init__(self, rule: Any) -> None:
            self._rule = rule

        def apply(self, function: Any, *arguments: Any) -> Any:
            """Return the schedule by the rule; ``None`` for an attention, and where the rule does not fit.

            Args:
                function: The function.
                arguments: Further arguments of ``ScheduleRule.apply``: target, and whether it may tune.
            """
            is_attention = bool(function.attrs) and _ATTENTION in function.attrs
            return None if is_attention else self._rule.apply(function, *arguments)

    if _target_is("cpu"):
        rules = [ExceptAttention(rule) for rule in rules]
    # FuseTIR makes functions of the groups of FuseOps. After the rules it would drop their schedules and the mark of
    # scheduled functions (``ConstructFunc`` in ``fuse_tir.cc``).
    return dlight.ApplyDefaultSchedule(*rules)(transform.FuseTIR()(module))


def _dlight(device: str, name: str) -> Any:
    return getattr(import_module(f"tvm.s_tir.dlight.{device}"), name)


# Memory.


def StaticPlanBlockMemory() -> Any:  # noqa: N802
    """Return ``relax.transform.StaticPlanBlockMemory``, after lowering to calls that write into allocated memory."""

    def plan(module: Any) -> Any:
        # The pass plans only explicit allocations, so every lowering pass before it runs here.
        dispatch = relax.pipeline.library_dispatch_passes(tvm.target.Target.current(allow_none=False))
        module = _apply_all(module, (*dispatch, transform.LegalizeOps(), transform.FuseTIR()))
        if _target_is("gpu"):
            module = _apply_rules(module, [_dlight("gpu", "Fallback")()])
        passes = (
            transform.RewriteDataflowReshape(),
            transform.ToNonDataflow(),
            transform.RemovePurityChecking(),
            transform.CallTIRRewrite(),
            transform.StaticPlanBlockMemory(),
        )
        return _apply_all(module, passes)

    return _pass("StaticPlanBlockMemory", plan)


def RewriteCUDAGraph() -> Any:  # noqa: N802
    """Return ``relax.transform.RewriteCUDAGraph``; for other targets than CUDA it changes nothing."""

    def rewrite(module: Any) -> Any:
        if not _target_is("cuda"):
            return module
        # TVM's pass does nothing without this option.
        with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
            return transform.RewriteCUDAGraph()(module)

    return _pass("RewriteCUDAGraph", rewrite)


# Parts for libraries and other devices.


def DispatchToLibrary(library: str = "cublas") -> Any:  # noqa: N802
    """Return a pass that offloads the parts of the network that a library implements, by TVM's patterns for it."""

    def dispatch(module: Any) -> Any:
        passes = (
            transform.FuseOpsByPattern(_patterns(library), bind_constants=False, annotate_codegen=True),
            transform.MergeCompositeFunctions(),
            transform.RunCodegen(),
        )
        return _apply_all(module, passes)

    return _pass("DispatchToLibrary", dispatch)


def FuseOpsByPattern(  # noqa: N802
    patterns: str = "bias_activation", bind_constants: bool = False, annotate_codegen: bool = False
) -> Any:
    """Return ``relax.transform.FuseOpsByPattern`` with the patterns of a code generator, or ``bias_activation``."""
    return _pass(
        "FuseOpsByPattern",
        lambda module: transform.FuseOpsByPattern(_patterns(patterns), bind_constants, annotate_codegen)(module),
    )


def _patterns(name: str) -> list[Any]:
    if name == "bias_activation":
        return _bias_activation()
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    if name in _LIBRARIES:
        import_module(f"tvm.relax.backend.{_LIBRARIES[name]}.{name}")  # registers the patterns
    patterns = list(get_patterns_with_prefix(name))
    if not patterns:
        raise ValueError(f"TVM has no patterns named `{name}`")
    return patterns


def _bias_activation() -> list[Any]:
    from tvm.relax.dpl import is_op, wildcard

    table = []
    for operator in ("nn.conv2d", "matmul"):
        biased = is_op("relax.add")(is_op(f"relax.{operator}")(wildcard(), wildcard()), wildcard())
        name = operator.removeprefix("nn.")
        table.append((f"passsearch.{name}_bias_relu", is_op("relax.nn.relu")(biased)))
        table.append((f"passsearch.{name}_bias", biased))
    return table


def OpenCLMLOffLoadForLLM() -> Any:  # noqa: N802
    """Return ``tvm.relax.backend.adreno.clml.OpenCLMLOffLoadForLLM`` for the current target."""

    def offload(module: Any) -> Any:
        from tvm.relax.backend.adreno import clml

        return clml.OpenCLMLOffLoadForLLM(tvm.target.Target.current(allow_none=False))(module)

    return _pass("OpenCLMLOffLoadForLLM", offload)


def UpdateVDevice(target: str, index: int) -> Any:  # noqa: N802
    """Return ``relax.transform.UpdateVDevice`` for the device of a target."""
    return transform.UpdateVDevice(relax.VDevice(target), index)


def UpdateParamType() -> Any:  # noqa: N802
    """Return ``relax.transform.UpdateParamType`` with a function that changes no type."""
    return transform.UpdateParamType(lambda _variable: None)


def SplitCallTIRByPattern() -> Any:  # noqa: N802
    """Return ``relax.transform.SplitCallTIRByPattern`` without patterns."""
    return transform.SplitCallTIRByPattern([], lambda *_: [])
