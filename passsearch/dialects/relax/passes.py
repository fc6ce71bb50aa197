"""Relax passes whose TVM constructors take more than plain values, or that need another pass before or after them.

All constructors here take JSON arguments only. Imports only TVM and numpy, because an exported deployment holds a copy
of this file.
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
"""Folder of ``tvm.relax.backend`` with each library's patterns."""

_RECORDS = "database_tuning_record.json"
_DATABASE = ("database_workload.json", _RECORDS)

_LEAST_DIGITS = 8
"""Fewest hexadecimal digits that identify a database's records."""

# If a transposed convolution took over NHWC from its input, ``LegalizeOps`` could not make loops of it.
_FIXED_LAYOUTS = {"relax.nn.conv2d_transpose": ["NCHW", "IOHW"]}

LEAST_GROUP = 16
"""Output channels of a group from which a grouped convolution is converted to NHWC."""

_AXES = {"squeeze": "axis", "permute_dims": "axes"}
"""Attributes with axes that TVM's layout inference uses as indices, so that they must not be negative."""


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


def ConvertLayout(layout: str = "NHWC", kernel: str = "HWIO") -> Any:  # noqa: N802
    """Return ``relax.transform.ConvertLayout`` for all convolutions but those of small groups.

    With channels last, the channels of several small groups stand in one vector, and each reads other data.

    TVM's layout inference (0.27) assumes that both operands of an elementwise operator are tensors, and uses axes of
    some operators as indices. A plain number, such as the epsilon of a folded batch norm, crashes the process, and an
    axis of -1 can crash it. Therefore numbers become constants and axes become positive first.

    Args:
        layout: Layout of the data.
        kernel: Layout of the kernels for data in NHWC; with any other data layout kernels are OIHW.
    """
    desired = [layout, kernel if layout == "NHWC" else "OIHW"]

    def layouts_of(call: Any) -> dict[str, list[str]]:
        stays = layout == "NHWC" and _has_small_groups(call)
        return {"relax.nn.conv2d": ["NCHW", "OIHW"] if stays else desired, **_FIXED_LAYOUTS}

    convert = transform.ConvertLayout({}, layouts_of)

    def convert_all(module: Any) -> Any:
        writer = _LayoutPreparation(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        # A module that has the layout already stays the same IR, without the prepared numbers and axes.
        return module if writer.layouts <= {tuple(desired)} else convert(writer.builder_.get())

    return _pass("ConvertLayout", convert_all)


def _has_small_groups(call: Any) -> bool:
    """Return True for a convolution of groups that are smaller than a vector, other than depthwise ones."""
    if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.nn.conv2d" or int(call.attrs.groups) == 1:
        return False
    shape, layout = call.args[1].ty.shape, str(call.attrs.kernel_layout)
    members, outputs = int(shape[layout.index("I")]), int(shape[layout.index("O")]) // int(call.attrs.groups)
    return members > 1 and outputs < LEAST_GROUP


@mutator
class _LayoutPreparation(PyExprMutator):  # type: ignore[misc]
    """Makes constants of numbers beside tensors, makes axes positive, and records the layouts of convolutions.

    A clip becomes a minimum and a maximum, whose layouts TVM infers.

    Source: ``InferLayoutBinaryEwise``, ``InferLayoutSqueeze``, ``InferLayoutPermuteDims`` in ``src/relax/op/tensor``.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.layouts: set[tuple[str, str]] = set()

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if (
            not isinstance(call.op, tvm.ir.Op) or not self.builder_.current_block_is_dataflow()
        ):  # TVM's pass skips the rest
            return call
        name = call.op.name.removeprefix("relax.")
        if name == "nn.conv2d" and not _has_small_groups(call):
            self.layouts.add((str(call.attrs.data_layout), str(call.attrs.kernel_layout)))
        if name in _AXES:
            axes, rank = getattr(call.attrs, _AXES[name]), call.args[0].ty.ndim
            is_static = axes is not None and rank >= 0
            return getattr(relax.op, name)(call.args[0], [int(axis) % rank for axis in axes]) if is_static else call
        if name == "clip":
            return self._clip(call)
        # relax.op.binary holds exactly the operators of InferLayoutBinaryEwise.
        is_binary = hasattr(relax.op.binary, name)
        if is_binary and not all(isinstance(operand.ty, relax.TensorType) for operand in call.args):
            return relax.Call(call.op, [_as_tensor(operand) for operand in call.args], call.attrs)
        return call

    def _clip(self, call: Any) -> Any:
        """Return a clip as minimum and maximum: TVM infers no layout for a clip, and would transpose around each."""
        array, *bounds = call.args
        if not all(isinstance(bound, (FloatImm, IntImm)) for bound in bounds):
            return call
        low, high = (relax.const(bound.value, str(array.ty.dtype)) for bound in bounds)
        above = self.builder_.emit(relax.op.maximum(array, low))
        return relax.op.minimum(above, high)


def _as_tensor(operand: Any) -> Any:
    if isinstance(operand, (FloatImm, IntImm)):
        return relax.const(operand.value, str(operand.ty.dtype))
    if isinstance(operand.ty, relax.TensorType):
        return operand
    raise ValueError(f"ConvertLayout takes tensors and plain numbers as operands, not {operand} of type {operand.ty}")


def CombineParallelMatmul() -> Any:  # noqa: N802
    """Return ``relax.transform.CombineParallelMatmul`` for all products, followed by ``CanonicalizeBindings``."""
    passes = (transform.CombineParallelMatmul(), transform.CanonicalizeBindings())
    return _pass("CombineParallelMatmul", lambda module: _apply_all(module, passes))


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
                """Return the schedule; ``None`` for a function that the rule does not fit."""
                result = super().apply(*arguments)
                return None if result is None or _has_conditions(result.mod["main"]) else result

        return _apply_rules(module, [WholeTiles()])

    return _pass("dlight.cpu.GEMV", schedule)


def _has_conditions(function: Any) -> bool:
    """Return True if a block of a function runs only where a condition holds."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlockRealize, blocks.append))
    return any(not isinstance(block.predicate, IntImm) for block in blocks)


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

    def schedule(module: Any) -> Any:
        pairs = (rule.split(".") for rule in rules)
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
