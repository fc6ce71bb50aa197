"""The Relax bridge for TVM 0.27. Loaded only in a worker whose toolchain has such a TVM."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import passsearch.dialects.relax.quick_import  # isort: skip  # noqa: F401  # before TVM is imported
import tvm
import tvm_ffi
from tvm.base import _LOADED_LIBS
from tvm.support.cc import create_shared

from passsearch.core import MAIN, BuildOptions, ModuleSummary, PassSpec, TensorType, physical_cores
from passsearch.dialects.build_clock import BuildClock
from passsearch.dialects.contract import Artifact, CompileError, Kernel, ModelSource, SourceNetwork
from passsearch.dialects.relax import importer, ir_file
from passsearch.dialects.relax.constants import Constants, constant_uses
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.dialects.relax.executable import NETWORK, VirtualMachineExecutable, artifact_digest
from passsearch.dialects.relax.isolated_kernels import (
    IsolatedKernel,
    KernelArguments,
    build_kernels,
    constant_bytes,
    isolate,
    list_kernels,
)
from passsearch.dialects.relax.kernels import count_launches, kernel_costs, kernel_hashes, kernels_digest, planned_bytes
from passsearch.dialects.relax.phases import OPERATORS, phase
from passsearch.dialects.relax.recurrence.gpu_loops import bind_recurrences
from passsearch.dialects.relax.separate_weights import store_weight, weight_bytes
from passsearch.dialects.relax.summary import count_operators, summarize, tensor_type
from passsearch.dialects.shared import (
    APPLY_LEVEL,
    JsonFiles,
    as_accident,
    build_context,
    check_input_names,
    count_parallel_tasks,
    error_line,
    free_device_bytes,
    limit_threads,
    load_function,
    parse_device,
    parse_target,
    require_linker,
)
from passsearch.errors import EnvironmentFault, UserError
from passsearch.standalone.relax.deployment import cuda_libraries, legalization, resizing
from passsearch.standalone.relax.deployment.code_generation import (
    CPU,
    build_config,
    replace_copies,
    replace_narrowing,
    write_library,
)
from passsearch.standalone.relax.deployment.lowering import has_memory_plan, lower, target_options
from passsearch.standalone.relax.deployment.separate_weights import separate_weights


class RelaxBridge(JsonFiles):
    """``passsearch.dialects.contract.Bridge`` for Relax."""

    def __init__(self, target: str) -> None:
        legalization.replace_functions()
        resizing.replace_resizes()
        replace_narrowing()
        replace_copies()
        self.target = parse_target(target, parse=_make_target, errors=COMPILER_ERRORS)
        self.constants = Constants()
        self._cuda_fault = _prepare_cuda(self.target)

    def threads(self) -> int:
        """Return the number of tasks a parallel loop is split into."""
        return count_parallel_tasks(_LOADED_LIBS["tvm_runtime"])

    def limit_threads(self, count: int) -> None:
        """Limit the threads of kernels that the calling thread starts."""
        limit_threads(count)

    def free_device_bytes(self, device: str) -> int | None:
        """Return the free memory of a GPU."""
        return free_device_bytes(device)

    def load(self, source: ModelSource) -> tvm.IRModule:
        """Import a network, its parameters as constants."""
        module = importer.load(source, widens=CPU in self.target.keys)
        if "gpu" in self.target.keys:
            module = bind_recurrences(module)
        if source.cases:
            # Each case was imported by itself; this makes one array of equal weights.
            return self.constants.fill(self.constants.strip(module)[0])
        check_input_names(source.inputs, self.inputs(module))
        return module

    def open_source(self, source: ModelSource) -> SourceNetwork:
        """Refuse: the user's process runs ONNX files and exported programs."""
        raise UserError(f"there is no runtime for files of {source.format} beside this compiler")

    def function_names(self, source: ModelSource) -> Sequence[str]:
        """Return the names of the functions in a file of Relax; none for other formats."""
        return ir_file.list_functions(source.path) if source.format == "ir" else ()

    def inputs(self, module: tvm.IRModule, entry: str = MAIN) -> Mapping[str, TensorType]:
        """Return the parameters of an entry function."""
        return {str(param.name): tensor_type(param.ty) for param in module[entry].params}

    def summarize(self, module: tvm.IRModule) -> ModuleSummary:
        """Return the dataflow graph as plain data."""
        return summarize(module)

    def op_counts(self, module: tvm.IRModule) -> Mapping[str, int]:
        """Count operators by name and layout, functions and constants."""
        return count_operators(module)

    def phase(self, module: tvm.IRModule) -> str:
        """Return `operators`, `loops`, `schedules` or `memory`."""
        return phase(module)

    def apply(self, module: tvm.IRModule, step: PassSpec, *, factory: str) -> tvm.IRModule:
        """Return the IR after one pass."""
        try:
            transform = load_function(factory)(**step.argument_values)
            # Some passes read the current target. The module is copied, because some passes change their argument.
            with self.target, tvm.transform.PassContext(opt_level=APPLY_LEVEL):
                return transform(module.clone())
        except COMPILER_ERRORS as error:
            raise CompileError(error_line(error)) from error

    def text(self, module: tvm.IRModule) -> str:
        """Return the module as TVMScript; constants stand as references."""
        return str(module.script(show_meta=False))

    def is_same_state(self, before: tvm.IRModule, after: tvm.IRModule) -> bool:
        """Return True for structurally equal modules that share constants in the same places."""
        # Structural equality is quick if both hold the same arrays. It does not tell one constant used twice from two
        # equal constants.
        return tvm_ffi.structural_equal(before, after) and constant_uses(before) == constant_uses(after)

    def identity(self, skeleton: tvm.IRModule) -> str:
        """Return TVM's structural hash, 16 hexadecimal digits."""
        return f"{tvm_ffi.structural_hash(skeleton):016x}"

    structural_hash = identity
    """TVM's structural hash of a whole module."""

    def equal(self, left: tvm.IRModule, right: tvm.IRModule) -> bool:
        """Return TVM's structural equality."""
        return bool(tvm_ffi.structural_equal(left, right))

    def build(self, module: tvm.IRModule, options: BuildOptions, folder: Path) -> Artifact:
        """Lower, generate code, and link it with the virtual machine's program and small weights into one library."""
        # A missing library is no fault of the candidate, so it must not become a ``CompileError``.
        if self._cuda_fault:
            raise EnvironmentFault(self._cuda_fault)
        clock, is_cpu = BuildClock(), CPU in self.target.keys
        try:
            # Relax has no opt level of its own; the level of the options selects a pipeline in ``lower``.
            config = build_config(dict(options.config), self.target)
            with self.target, build_context(options, opt_level=APPLY_LEVEL, instruments=[clock], config=config):
                is_planned = options.opt_level > 0 or has_memory_plan(module)
                lowered = lower(module.clone(), level=options.opt_level, target=self.target)
                folder.mkdir(exist_ok=True)
                linking = {"fcompile": clock.linking(as_accident(create_shared)), "cc": require_linker()}
                network = separate_weights(lowered, folder, store_weight) if is_cpu else lowered
                write_library(network, self.target, folder / NETWORK, threads=physical_cores(), **linking)
        except COMPILER_ERRORS as error:
            raise CompileError(error_line(error)) from error
        clock.charge()
        size = (folder / NETWORK).stat().st_size + weight_bytes(folder)
        plan_bytes = planned_bytes(lowered) if is_planned else None
        kernels, seconds = kernels_digest(lowered), dict(clock.seconds)
        # A GPU's library has the functions that start its kernels under their names.
        library = folder / NETWORK if is_cpu else None
        by_name = (lambda: kernel_hashes(lowered), lambda: kernel_costs(lowered, library))
        launches = None if is_cpu else count_launches(lowered)
        return Artifact(folder, size, plan_bytes, kernels, seconds, *by_name, launches)

    def kernels(self, module: tvm.IRModule, weights: Mapping[str, float] | None = None) -> Sequence[Kernel]:
        """Return the functions of loops that entry functions call; none while these have operators."""
        return () if phase(module) == OPERATORS else list_kernels(module, weights or {})

    def constant_bytes(self, module: tvm.IRModule) -> int:
        """Return the size of the constants that the kernels read."""
        return constant_bytes(module)

    def isolate(self, module: tvm.IRModule, kernel: str) -> tvm.IRModule:
        """Return a module that calls one kernel once."""
        return isolate(module, kernel)

    def open_kernel(self, module: tvm.IRModule, arguments: KernelArguments) -> IsolatedKernel:
        """Return the kernel that main calls."""
        return IsolatedKernel(module, arguments)

    def build_kernels(self, kernels: Sequence[IsolatedKernel]) -> None:
        """Generate the code of kernels."""
        build_kernels(kernels, self.target, threads=physical_cores())

    def kernel_arguments(self, cold_bytes: int, device: str) -> KernelArguments:
        """Return arguments, which variants of one kernel share."""
        return KernelArguments(cold_bytes, tvm.device(*parse_device(device)))

    def digest(self, artifact: Artifact) -> str:
        """Return a SHA-256 of the library, weights included."""
        return artifact_digest(artifact.folder)

    def save(self, module: tvm.IRModule, path: Path) -> None:
        """Write TVM's JSON, constants included; ``load`` of it, as format ``ir``, has the same identity."""
        # A process that dies while it writes leaves the earlier file whole.
        partial = path.with_name(f"{path.name}.partial")
        with partial.open("w") as file:
            ir_file.write_json(module, file)
        partial.replace(path)

    def save_with_external_weights(self, module: tvm.IRModule, path: Path) -> None:
        """Write TVM's JSON without large constants, and these to a parameter file."""
        ir_file.save_with_external_weights(module, path)

    def open(self, artifact: Artifact, device: str) -> VirtualMachineExecutable:
        """Load a built network onto a device."""
        return VirtualMachineExecutable(artifact, device)


def _prepare_cuda(target: tvm.target.Target) -> str:
    """Load what compiles for a CUDA target; return why that is impossible, or an empty text."""
    if target.kind.name != "cuda":
        return ""
    try:
        cuda_libraries.prepare(require_linker())
    except OSError as error:
        return str(error)
    return ""


def _make_target(text: str) -> tvm.target.Target:
    return tvm.target.Target(target_options(text))
