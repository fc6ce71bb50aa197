"""Relax passes whose constructors take more than plain values, or that leave work half done: callable with JSON only.

Imports nothing but TVM and numpy: an exported deployment script carries a copy of this file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import FloatImm, IntImm

_LIBRARIES = {
    "cublas": "cuda",
    "cudnn": "cuda",
    "cutlass": "cuda",
    "hipblas": "rocm",
    "tensorrt": "contrib",
    "nnapi": "contrib",
}
"""Where TVM keeps each library's patterns."""

_RECORDS = "database_tuning_record.json"
_DATABASE = ("database_workload.json", _RECORDS)

_LEAST_DIGITS = 8
"""Of a database's digest."""

_PINNED = {"relax.nn.conv2d_transpose": ["NCHW", "IOHW"]}
"""A transposed convolution that follows its input to NHWC has no loops: ``LegalizeOps`` leaves it as it is."""

_AXES = {"squeeze": "axis", "permute_dims": "axes"}
"""Attributes in which the inference of layouts takes axes for indices."""


def _pass(name: str, change: Callable[[Any], Any], *, opt_level: int = 0) -> Any:
    return tvm.transform.module_pass(lambda module, _context: change(module), opt_level=opt_level, name=name)


def _in_turn(module: Any, passes: Sequence[Any]) -> Any:
    for each in passes:
        module = each(module)
    return module


def _is_for(kind: str) -> bool:
    return kind in tvm.target.Target.current(allow_none=False).keys


# Operators.


def ConvertLayout(layout: str = "NHWC", kernel: str = "HWIO") -> Any:  # noqa: N802
    """``relax.transform.ConvertLayout`` for all convolutions, given the data layout and the kernel's.

    Its inference of layouts (0.27) takes both sides of an elementwise operator for tensors, and axes of some operators
    for indices: a plain number, as the epsilon of a folded batch norm, ends the process, and so may an axis of -1. Both
    are written as it expects them first.
    """
    desired = [layout, kernel if layout == "NHWC" else "OIHW"]
    convert = transform.ConvertLayout({"relax.nn.conv2d": desired, **_PINNED})

    def converted(module: Any) -> Any:
        writer = _LayoutsInferable(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return module if writer.layouts <= {tuple(desired)} else convert(writer.builder_.get())

    return _pass("ConvertLayout", converted)


@mutator
class _LayoutsInferable(PyExprMutator):  # type: ignore[misc]
    """Writes numbers beside tensors as constants and axes as counted from the front; notes layouts of convolutions.

    Source: ``InferLayoutBinaryEwise``, ``InferLayoutSqueeze``, ``InferLayoutPermuteDims`` in ``src/relax/op/tensor``.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.layouts: set[tuple[str, str]] = set()

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.Op) or not self.builder_.current_block_is_dataflow():  # as TVM's pass
            return call
        name = call.op.name.removeprefix("relax.")
        if name == "nn.conv2d":
            self.layouts.add((str(call.attrs.data_layout), str(call.attrs.kernel_layout)))
        if name in _AXES:
            axes, rank = getattr(call.attrs, _AXES[name]), call.args[0].ty.ndim
            known = axes is not None and rank >= 0
            return getattr(relax.op, name)(call.args[0], [int(each) % rank for each in axes]) if known else call
        # The module holds exactly the operators of InferLayoutBinaryEwise.
        if hasattr(relax.op.binary, name) and not all(isinstance(each.ty, relax.TensorType) for each in call.args):
            return relax.Call(call.op, [_as_tensor(each) for each in call.args], call.attrs)
        return call


def _as_tensor(operand: Any) -> Any:
    if isinstance(operand, (FloatImm, IntImm)):
        return relax.const(operand.value, str(operand.ty.dtype))
    if isinstance(operand.ty, relax.TensorType):
        return operand
    raise ValueError(f"ConvertLayout takes tensors and plain numbers as operands, not {operand} of type {operand.ty}")


def CombineParallelMatmul() -> Any:  # noqa: N802
    """``relax.transform.CombineParallelMatmul`` of all products, then the bindings it leaves made plain."""
    passes = (transform.CombineParallelMatmul(), transform.CanonicalizeBindings())
    return _pass("CombineParallelMatmul", lambda module: _in_turn(module, passes))


def FuseTransposeMatmul() -> Any:  # noqa: N802
    """``relax.transform.FuseTransposeMatmul``, without the transposes that nothing reads then."""
    passes = (transform.FuseTransposeMatmul(), transform.DeadCodeElimination())
    return _pass("FuseTransposeMatmul", lambda module: _in_turn(module, passes))


# Schedules.


def CpuGEMV() -> Any:  # noqa: N802
    """DLight's rule for products with one vector, on a CPU."""
    return _rule("cpu", "GEMV")


def CpuReduction() -> Any:  # noqa: N802
    """DLight's rule for reductions followed by maps, on a CPU."""
    return _rule("cpu", "Reduction")


def GpuMatmul() -> Any:  # noqa: N802
    """DLight's rule for products of matrices, on a GPU."""
    return _rule("gpu", "Matmul")


def GpuGEMV() -> Any:  # noqa: N802
    """DLight's rule for products with one vector, on a GPU."""
    return _rule("gpu", "GEMV")


def GpuLowBatchGEMV(bucket: int = 4) -> Any:  # noqa: N802
    """DLight's rule for products with a few vectors, on a GPU."""
    return _rule("gpu", "LowBatchGEMV", bucket)


def GpuReduction() -> Any:  # noqa: N802
    """DLight's rule for sums, on a GPU."""
    return _rule("gpu", "Reduction")


def GpuGeneralReduction() -> Any:  # noqa: N802
    """DLight's rule for chains of reductions, on a GPU."""
    return _rule("gpu", "GeneralReduction")


def GpuRMSNorm() -> Any:  # noqa: N802
    """DLight's rule for root mean square norms, on a GPU."""
    return _rule("gpu", "RMSNorm")


def GpuTranspose() -> Any:  # noqa: N802
    """DLight's rule for transposes, on a GPU."""
    return _rule("gpu", "Transpose")


def GpuFallback() -> Any:  # noqa: N802
    """DLight's rule for whatever is left, on a GPU."""
    return _rule("gpu", "Fallback")


def ApplyDefaultSchedule(rules: list[str]) -> Any:  # noqa: N802
    """DLight's pass with rules named as ``gpu.Matmul``; those of another kind of device are left out."""

    def schedule(module: Any) -> Any:
        named = (rule.split(".") for rule in rules)
        fit = [_dlight(home, name)() for home, name in named if _is_for("cpu" if home == "cpu" else "gpu")]
        return _scheduled(module, fit) if fit else module

    return _pass("ApplyDefaultSchedule", schedule)


def DefaultGPUSchedule() -> Any:  # noqa: N802
    """``s_tir.transform.DefaultGPUSchedule``; on a CPU, where TVM's calls everything scheduled, nothing."""

    def schedule(module: Any) -> Any:
        if not _is_for("gpu"):
            return module
        return tvm.s_tir.transform.DefaultGPUSchedule()(transform.FuseTIR()(module))

    return _pass("DefaultGPUSchedule", schedule)


def MetaScheduleApplyDatabase(work_dir: str, sha256: str, enable_warning: bool = False) -> Any:  # noqa: N802
    """``relax.transform.MetaScheduleApplyDatabase``, which asks for the target when it is made.

    A database grows in its place, so what a search found out with one is not true of the next: it goes by its digest.
    """

    def schedule(module: Any) -> Any:
        folder = Path(work_dir)
        missing = [name for name in _DATABASE if not (folder / name).is_file()]
        if missing:  # TVM would make an empty one
            raise ValueError(f"no tuning database: `{work_dir}` has no {missing[0]}")
        if not folder.is_absolute():  # workers and exported scripts run in folders of their own
            raise ValueError(f"`{work_dir}` is not an absolute path")
        found = hashlib.sha256((folder / _RECORDS).read_bytes()).hexdigest()
        if len(sha256) < _LEAST_DIGITS or not found.startswith(sha256):
            raise ValueError(f"the sha256 of {_RECORDS} in `{work_dir}` is {found}, not `{sha256}`")
        return transform.MetaScheduleApplyDatabase(work_dir, enable_warning)(module)

    return _pass("MetaScheduleApplyDatabase", schedule)


def SplitLayoutRewritePreproc() -> Any:  # noqa: N802
    """``relax.transform.SplitLayoutRewritePreproc``, what it splits off evaluated at once."""
    passes = (transform.SplitLayoutRewritePreproc(), transform.FoldConstant())
    return _pass("SplitLayoutRewritePreproc", lambda module: _in_turn(module, passes))


def _rule(home: str, name: str, *arguments: Any) -> Any:
    def schedule(module: Any) -> Any:
        return _scheduled(module, [_dlight(home, name)(*arguments)]) if _is_for(home) else module

    return _pass(f"dlight.{home}.{name}", schedule)


def _scheduled(module: Any, rules: Sequence[Any]) -> Any:
    """With what FuseOps has grouped made functions first: afterwards that would undo the schedules."""
    from tvm.s_tir import dlight

    return dlight.ApplyDefaultSchedule(*rules)(transform.FuseTIR()(module))


def _dlight(home: str, name: str) -> Any:
    return getattr(import_module(f"tvm.s_tir.dlight.{home}"), name)


# Memory.


def StaticPlanBlockMemory() -> Any:  # noqa: N802
    """``relax.transform.StaticPlanBlockMemory`` of calls that write into what is allocated, made so first."""

    def plan(module: Any) -> Any:
        dispatched = relax.pipeline.library_dispatch_passes(tvm.target.Target.current(allow_none=False))
        module = _in_turn(module, (*dispatched, transform.LegalizeOps(), transform.FuseTIR()))
        if _is_for("gpu"):
            module = _scheduled(module, [_dlight("gpu", "Fallback")()])
        passes = (
            transform.RewriteDataflowReshape(),
            transform.ToNonDataflow(),
            transform.RemovePurityChecking(),
            transform.CallTIRRewrite(),
            transform.StaticPlanBlockMemory(),
        )
        return _in_turn(module, passes)

    return _pass("StaticPlanBlockMemory", plan)


def RewriteCUDAGraph() -> Any:  # noqa: N802
    """``relax.transform.RewriteCUDAGraph``, which asks a setting whether it may; elsewhere than on CUDA nothing."""

    def rewrite(module: Any) -> Any:
        if not _is_for("cuda"):
            return module
        with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
            return transform.RewriteCUDAGraph()(module)

    return _pass("RewriteCUDAGraph", rewrite)


# Parts for libraries and other devices.


def DispatchToLibrary(library: str = "cublas") -> Any:  # noqa: N802
    """Parts that a library has, by its patterns, and its code generator for them."""

    def dispatch(module: Any) -> Any:
        passes = (
            transform.FuseOpsByPattern(_patterns(library), bind_constants=False, annotate_codegen=True),
            transform.MergeCompositeFunctions(),
            transform.RunCodegen(),
        )
        return _in_turn(module, passes)

    return _pass("DispatchToLibrary", dispatch)


def FuseOpsByPattern(  # noqa: N802
    patterns: str = "bias_activation", bind_constants: bool = False, annotate_codegen: bool = False
) -> Any:
    """``relax.transform.FuseOpsByPattern`` with patterns by the name of a code generator, or ``bias_activation``."""
    return _pass(
        "FuseOpsByPattern",
        lambda module: transform.FuseOpsByPattern(_patterns(patterns), bind_constants, annotate_codegen)(module),
    )


def _patterns(name: str) -> list[Any]:
    if name == "bias_activation":
        return _bias_activation()
    from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

    if name in _LIBRARIES:
        import_module(f"tvm.relax.backend.{_LIBRARIES[name]}.{name}")  # registers them
    found = list(get_patterns_with_prefix(name))
    if not found:
        raise ValueError(f"TVM has no patterns named `{name}`")
    return found


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
    """``tvm.relax.backend.adreno.clml.OpenCLMLOffLoadForLLM`` for the target in scope."""

    def offload(module: Any) -> Any:
        from tvm.relax.backend.adreno import clml

        return clml.OpenCLMLOffLoadForLLM(tvm.target.Target.current(allow_none=False))(module)

    return _pass("OpenCLMLOffLoadForLLM", offload)


def UpdateVDevice(target: str, index: int) -> Any:  # noqa: N802
    """``relax.transform.UpdateVDevice``, the device given by its target."""
    return transform.UpdateVDevice(relax.VDevice(target), index)


def UpdateParamType() -> Any:  # noqa: N802
    """``relax.transform.UpdateParamType`` that changes no type."""
    return transform.UpdateParamType(lambda _variable: None)


def SplitCallTIRByPattern() -> Any:  # noqa: N802
    """``relax.transform.SplitCallTIRByPattern`` without a pattern."""
    return transform.SplitCallTIRByPattern([], lambda *_: [])
