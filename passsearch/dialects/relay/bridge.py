"""Relay through TVM 0.8 to 0.19. Loaded only in a worker of a toolchain that has it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import tvm
from tvm import relay

from passsearch.core import BuildOptions, ModuleSummary, PassSpec, TensorType
from passsearch.dialects.contract import Artifact, CompileError, ModelSource
from passsearch.dialects.relay import importer, ir_file
from passsearch.dialects.relay.constants import Constants, constant_uses
from passsearch.dialects.relay.executable import (
    GRAPH,
    KERNELS,
    PARAMETERS,
    GraphExecutable,
    artifact_digest,
    folder_bytes,
    parallel_tasks,
    planned_bytes,
)
from passsearch.dialects.relay.kernels import LoweredKernels, kernels_digest
from passsearch.dialects.relay.summary import census, summarize
from passsearch.dialects.shared import error_line, parse_target, require_linker
from passsearch.errors import UserError

APPLY_LEVEL = 4
"""A pass runs only if its own level is within the context's; 4 is the highest any Relay pass has."""


class RelayBridge:
    """``passsearch.dialects.contract.Bridge`` for Relay."""

    def __init__(self, target: str) -> None:
        self.target = parse_target(target, parse=tvm.target.Target, errors=(tvm.TVMError, ValueError))
        self.constants = Constants()
        # A pass that fails prints the module into its message; with all weights in it that takes seconds.
        tvm.register_func("relay._constant_repr", lambda _: "…", override=True)

    def threads(self) -> int:
        """How many tasks a parallel launch makes: some builds of TVM make one, whatever TVM_NUM_THREADS says."""
        return parallel_tasks()

    def load(self, source: ModelSource) -> tvm.IRModule:
        """Import, bind the parameters, infer the types."""
        module = importer.load(source)
        # Where the file does not name them, they were told by the user, and one that nothing reads is gone by now.
        named = source.inputs if source.format in ("ir", "onnx") else {}
        unknown = sorted(set(named) - set(self.inputs(module)))
        if unknown:
            names = ", ".join(self.inputs(module))
            raise UserError(f"Unknown input `{unknown[0]}`; this network's inputs are: {names}.")
        return module

    def inputs(self, module: tvm.IRModule) -> Mapping[str, TensorType]:
        """Free parameters of main: those that have no value bound."""
        return {var.name_hint: importer.tensor_type(var.checked_type) for var in module["main"].params}

    def summarize(self, module: tvm.IRModule) -> ModuleSummary:
        """The dataflow graph as plain data."""
        return summarize(module)

    def census(self, module: tvm.IRModule) -> Mapping[str, int]:
        """Operators as `nn.conv2d NCHW OIHW`, functions, constants."""
        return census(module)

    def phase(self, module: tvm.IRModule) -> str:
        """Relay has none: what a pass finds nothing to do on it leaves alone."""
        return ""

    def apply(self, module: tvm.IRModule, step: PassSpec, *, factory: str) -> tvm.IRModule:
        """One pass, with the target in scope as some ask for it, and the types inferred."""
        home, _, function = factory.partition(":")
        try:
            transform = getattr(import_module(home), function)(**step.bound)
            with self.target, tvm.transform.PassContext(opt_level=APPLY_LEVEL):
                after = transform(_copy(module))
                # A function pass has inferred them itself (FunctionPassNode in src/relay/ir/transform.cc, 0.8 to 0.19).
                typed = isinstance(transform, relay.transform.FunctionPass)
                return after if typed else relay.transform.InferType()(after)
        except (tvm.TVMError, tvm.error.DiagnosticError, TypeError, ValueError, AttributeError) as error:
            raise CompileError(error_line(error)) from error

    def unchanged(self, before: tvm.IRModule, after: tvm.IRModule) -> bool:
        """TVM's structural equality, quick where both hold the same arrays, and the same sharing of constants."""
        if not tvm.ir.structural_equal(before, after):
            return False
        uses = constant_uses(before)
        return uses is not None and uses == constant_uses(after)

    def identity(self, skeleton: tvm.IRModule) -> str:
        """TVM's structural hash, 16 hexadecimal digits."""
        return f"{tvm.ir.structural_hash(skeleton) & 0xFFFFFFFFFFFFFFFF:016x}"

    structural_hash = identity
    """The same of a whole module."""

    def equal(self, left: tvm.IRModule, right: tvm.IRModule) -> bool:
        """TVM's structural equality."""
        return bool(tvm.ir.structural_equal(left, right))

    def write(self, skeleton: tvm.IRModule) -> str:
        """TVM's JSON."""
        return str(tvm.ir.save_json(skeleton))

    def read(self, text: str) -> tvm.IRModule:
        """From TVM's JSON."""
        return tvm.ir.load_json(text)

    def build(self, module: tvm.IRModule, options: BuildOptions, folder: Path) -> Artifact:
        """Build for the graph executor and write kernels, graph and parameters.

        Code is generated when the kernels are written, so writing them is part of compiling.
        """
        lowered = LoweredKernels()
        context = tvm.transform.PassContext(
            instruments=[lowered],
            opt_level=options.opt_level,
            required_pass=list(options.required),
            disabled_pass=list(options.disabled),
            config=dict(options.config),
        )
        try:
            with context:
                library = relay.build(module, self.target)
        except (tvm.TVMError, tvm.error.DiagnosticError, TypeError, ValueError) as error:
            raise CompileError(error_line(error)) from error
        folder.mkdir(parents=True, exist_ok=True)
        library.get_lib().export_library(str(folder / KERNELS), cc=require_linker())
        (folder / GRAPH).write_text(library.get_graph_json())
        (folder / PARAMETERS).write_bytes(relay.save_param_dict(library.get_params()))
        graph = library.get_graph_json()
        return Artifact(folder, folder_bytes(folder), planned_bytes(graph), kernels_digest(graph, lowered.hashes))

    def digest(self, artifact: Artifact) -> str:
        """Kernels, graph, and parameters by name: the order they are written in differs from process to process."""
        return artifact_digest(artifact.folder)

    def save(self, module: tvm.IRModule, path: Path) -> None:
        """TVM's JSON, constants and types included; ``load`` of it, as format ``ir``, has the same identity."""
        path.write_text(tvm.ir.save_json(module))

    def save_with_external_weights(self, module: tvm.IRModule, path: Path) -> None:
        """TVM's JSON without large constants, which go into a parameter file."""
        ir_file.save_with_external_weights(module, path)

    def open(self, artifact: Artifact, device: str) -> GraphExecutable:
        """Load onto a device."""
        return GraphExecutable(artifact, device)


def _copy(module: tvm.IRModule) -> tvm.IRModule:
    """The same functions in a new table: passes written in Python may change the module they are given."""
    fields = ("functions", "type_definitions", "attrs", "global_infos")  # what there is grew with TVM's releases
    return tvm.IRModule(*(getattr(module, field) for field in fields if hasattr(module, field)))
