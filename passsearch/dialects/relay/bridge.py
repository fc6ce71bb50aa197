"""The Relay bridge for TVM 0.8 to 0.19. Loaded only in a worker whose toolchain has such a TVM."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import passsearch.dialects.relay.quick_import  # isort: skip  # noqa: F401  # before TVM is imported
import tvm
from tvm import relay
from tvm.contrib.cc import create_shared

from passsearch.core import MAIN, BuildOptions, ModuleSummary, PassSpec, TensorType
from passsearch.dialects.build_clock import BuildClock
from passsearch.dialects.contract import Artifact, CompileError, Kernel, KernelExecutable, ModelSource, SourceNetwork
from passsearch.dialects.relay import importer, ir_file
from passsearch.dialects.relay.constants import Constants, constant_uses
from passsearch.dialects.relay.executable import (
    GRAPH,
    KERNELS,
    PARAMETERS,
    GraphExecutable,
    artifact_digest,
    folder_bytes,
    planned_bytes,
)
from passsearch.dialects.relay.kernels import LoweredKernels, kernel_hashes, kernels_digest
from passsearch.dialects.relay.summary import count_operators, summarize
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
    parse_target,
    require_linker,
)
from passsearch.standalone.relay.deployment.keep_nan import keep_nan
from passsearch.standalone.relay.deployment.quantized import canonicalize_quantized

# AlterOpLayout before SimplifyInference, for example, raises a DiagnosticError.
BUILD_ERRORS = (tvm.TVMError, tvm.error.DiagnosticError, TypeError, ValueError)
"""Exceptions of TVM's own build pipeline."""

PASS_ERRORS = (*BUILD_ERRORS, AttributeError)
"""Exceptions of a pass; a factory that this TVM does not have is an ``AttributeError``."""


class RelayBridge(JsonFiles):
    """``passsearch.dialects.contract.Bridge`` for Relay."""

    def __init__(self, target: str) -> None:
        self.target = parse_target(target, parse=tvm.target.Target, errors=(tvm.TVMError, ValueError))
        self.constants = Constants()
        # A pass that fails prints the module into its message; with all weights in it that takes seconds.
        tvm.register_func("relay._constant_repr", lambda _: "…", override=True)

    def threads(self) -> int:
        """Return the number of tasks a parallel loop is split into."""
        return count_parallel_tasks(tvm._ffi.base._LIB)

    def limit_threads(self, count: int) -> None:
        """Limit the threads of kernels that the calling thread starts."""
        limit_threads(count)

    def free_device_bytes(self, device: str) -> int | None:
        """Return the free memory of a GPU."""
        return free_device_bytes(device)

    def load(self, source: ModelSource) -> tvm.IRModule:
        """Import a network, bind its parameters, infer the types."""
        module = importer.load(source, widens="cpu" in self.target.keys)
        # Other formats do not name their inputs, so the names come from the user; an input that nothing reads is not
        # in the module any more, and that is no mistake of the user's.
        names = source.inputs if source.format in ("ir", "onnx") else {}
        check_input_names(names, self.inputs(module))
        return module

    def open_source(self, source: ModelSource) -> SourceNetwork:
        """Open a model file as its own framework runs it."""
        return importer.open_source(source)

    def function_names(self, source: ModelSource) -> Sequence[str]:
        """Return the names of the functions in a file of Relay; none for other formats."""
        return ir_file.list_functions(source.path) if source.format == "ir" else ()

    def inputs(self, module: tvm.IRModule, entry: str = MAIN) -> Mapping[str, TensorType]:
        """Return the inputs of an entry function by name: its parameters that no value was bound to."""
        return {var.name_hint: importer.tensor_type(var.checked_type) for var in module[entry].params}

    def summarize(self, module: tvm.IRModule) -> ModuleSummary:
        """Return the dataflow graph as plain data."""
        return summarize(module)

    def op_counts(self, module: tvm.IRModule) -> Mapping[str, int]:
        """Count operators (as `nn.conv2d NCHW OIHW`), functions and constants."""
        return count_operators(module)

    def phase(self, module: tvm.IRModule) -> str:
        """Return an empty text: Relay has no phases, a pass in the wrong place changes nothing."""
        return ""

    def apply(self, module: tvm.IRModule, step: PassSpec, *, factory: str) -> tvm.IRModule:
        """Return the IR after one pass, types inferred."""
        try:
            transform = load_function(factory)(**step.argument_values)
            # Some passes read the current target.
            with self.target, tvm.transform.PassContext(opt_level=APPLY_LEVEL):
                after = transform(_copy_function_table(module))
                # A function pass has inferred them itself (FunctionPassNode in src/relay/ir/transform.cc, 0.8 to 0.19).
                is_typed = isinstance(transform, relay.transform.FunctionPass)
                return after if is_typed else relay.transform.InferType()(after)
        except PASS_ERRORS as error:
            raise CompileError(error_line(error)) from error

    def text(self, module: tvm.IRModule) -> str:
        """Return the module as text; constants stand as references."""
        return str(module.astext(show_meta_data=False))

    def is_same_state(self, before: tvm.IRModule, after: tvm.IRModule) -> bool:
        """Return True for structurally equal modules that share constants in the same places."""
        # Quick if both hold the same arrays: TVM then compares their addresses and not their content.
        if not tvm.ir.structural_equal(before, after):
            return False
        # TVM's equality does not tell one constant used twice from two equal constants, but FuseOps does.
        uses = constant_uses(before)
        return uses is not None and uses == constant_uses(after)

    def identity(self, skeleton: tvm.IRModule) -> str:
        """Return TVM's structural hash, 16 hexadecimal digits."""
        # The C++ hash is unsigned; Python receives it as a signed 64-bit integer.
        return f"{tvm.ir.structural_hash(skeleton) & 0xFFFFFFFFFFFFFFFF:016x}"

    structural_hash = identity
    """TVM's structural hash of a whole module."""

    def equal(self, left: tvm.IRModule, right: tvm.IRModule) -> bool:
        """Return TVM's structural equality."""
        return bool(tvm.ir.structural_equal(left, right))

    def build(self, module: tvm.IRModule, options: BuildOptions, folder: Path) -> Artifact:
        """Build for the graph executor and write kernels, graph and parameters.

        TVM generates code when it writes the kernels, so writing them counts as compiling.
        """
        # After the build only machine code is left, so an instrument reads the lowered kernels during it.
        lowered, clock = LoweredKernels(), BuildClock()
        try:
            with build_context(
                options,
                opt_level=options.opt_level,
                instruments=[lowered, clock],
                config=keep_nan(dict(options.config)),
            ):
                library = relay.build(canonicalize_quantized(module, opt_level=options.opt_level), self.target)
        except BUILD_ERRORS as error:
            raise CompileError(error_line(error)) from error
        folder.mkdir(exist_ok=True)
        link = clock.linking(as_accident(create_shared))
        library.get_lib().export_library(str(folder / KERNELS), fcompile=link, cc=require_linker())
        graph = library.get_graph_json()
        (folder / GRAPH).write_text(graph)
        (folder / PARAMETERS).write_bytes(relay.save_param_dict(library.get_params()))
        clock.charge()
        kernels = kernels_digest(graph, lowered.hashes)
        size, plan_bytes, seconds = folder_bytes(folder), planned_bytes(graph), dict(clock.seconds)
        return Artifact(folder, size, plan_bytes, kernels, seconds, lambda: kernel_hashes(graph, lowered.hashes))

    def kernels(self, module: tvm.IRModule, weights: Mapping[str, float] | None = None) -> Sequence[Kernel]:
        """Return nothing: Relay makes its functions of loops inside the build."""
        return ()

    def constant_bytes(self, module: tvm.IRModule) -> int:
        """Return 0, as there are no kernels that read constants."""
        return 0

    def isolate(self, module: tvm.IRModule, kernel: str) -> tvm.IRModule:
        """Refuse: there are no kernels to take out."""
        raise CompileError(f"Relay does not show kernel {kernel}")

    def open_kernel(self, module: tvm.IRModule, arguments: None) -> KernelExecutable:
        """Refuse: there are no kernels to build alone."""
        raise CompileError("Relay does not show its kernels")

    def build_kernels(self, kernels: Sequence[KernelExecutable]) -> None:
        """Do nothing, as ``open_kernel`` opens none."""

    def kernel_arguments(self, cold_bytes: int, device: str) -> None:
        """Return nothing, as there are no kernels to run alone."""

    def digest(self, artifact: Artifact) -> str:
        """Return a SHA-256 of kernels, graph and parameters."""
        return artifact_digest(artifact.folder)

    def save_with_external_weights(self, module: tvm.IRModule, path: Path) -> None:
        """Write TVM's JSON without large constants, and these to a parameter file."""
        ir_file.save_with_external_weights(module, path)

    def open(self, artifact: Artifact, device: str) -> GraphExecutable:
        """Load a built network onto a device."""
        return GraphExecutable(artifact, device)


def _copy_function_table(module: tvm.IRModule) -> tvm.IRModule:
    """Return the same functions in a new table: passes written in Python may change the module they are given."""
    fields = ("functions", "type_definitions", "attrs", "global_infos")  # later TVM releases have more of these fields
    return tvm.IRModule(*(getattr(module, field) for field in fields if hasattr(module, field)))
