"""Relax through TVM 0.27. Loaded only in a worker of a toolchain that has it."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax

from passsearch.core import BuildOptions, ModuleSummary, PassSpec, TensorType
from passsearch.dialects.contract import Artifact, CompileError, ModelSource
from passsearch.dialects.relax import importer, ir_file
from passsearch.dialects.relax.constants import Constants, constant_uses
from passsearch.dialects.relax.executable import (
    NETWORK,
    VirtualMachineExecutable,
    artifact_digest,
    parallel_tasks,
)
from passsearch.dialects.relax.kernels import kernels_digest, planned_bytes
from passsearch.dialects.relax.lowering import lowered, planned, target_options
from passsearch.dialects.relax.phases import phase
from passsearch.dialects.relax.summary import census, summarize, tensor_type
from passsearch.dialects.shared import error_line, parse_target, require_linker
from passsearch.errors import UserError

APPLY_LEVEL = 4
"""A pass runs only if its own level is within the context's."""

FAULTS = (RuntimeError, TypeError, ValueError, AttributeError, KeyError, IndexError, AssertionError)
"""What TVM raises: its own errors, which are kinds of RuntimeError, and those of passes written in Python."""


class RelaxBridge:
    """``passsearch.dialects.contract.Bridge`` for Relax."""

    def __init__(self, target: str) -> None:
        self.target = parse_target(target, parse=_parse_target, errors=FAULTS)
        self.constants = Constants()

    def threads(self) -> int:
        """How many tasks a parallel launch makes."""
        return parallel_tasks()

    def load(self, source: ModelSource) -> tvm.IRModule:
        """Import, with parameters as constants."""
        module = importer.load(source)
        unknown = sorted(set(source.inputs) - set(self.inputs(module)))
        if unknown:
            names = ", ".join(self.inputs(module))
            raise UserError(f"Unknown input `{unknown[0]}`; this network's inputs are: {names}.")
        return module

    def inputs(self, module: tvm.IRModule) -> Mapping[str, TensorType]:
        """Parameters of main."""
        return {str(each.name): tensor_type(each.ty) for each in module["main"].params}

    def summarize(self, module: tvm.IRModule) -> ModuleSummary:
        """The dataflow graph as plain data."""
        return summarize(module)

    def census(self, module: tvm.IRModule) -> Mapping[str, int]:
        """Operators by name and layout, functions, constants."""
        return census(module)

    def phase(self, module: tvm.IRModule) -> str:
        """`operators`, `loops`, `schedules` or `memory`."""
        return phase(module)

    def apply(self, module: tvm.IRModule, step: PassSpec, *, factory: str) -> tvm.IRModule:
        """One pass, with the target in scope as some ask for it."""
        home, _, function = factory.partition(":")
        try:
            transform = getattr(import_module(home), function)(**step.bound)
            with self.target, tvm.transform.PassContext(opt_level=APPLY_LEVEL):
                return transform(module.clone())
        except FAULTS as error:
            raise CompileError(error_line(error)) from error

    def unchanged(self, before: tvm.IRModule, after: tvm.IRModule) -> bool:
        """TVM's structural equality, quick where both hold the same arrays, and the same sharing of constants."""
        return tvm_ffi.structural_equal(before, after) and constant_uses(before) == constant_uses(after)

    def identity(self, skeleton: tvm.IRModule) -> str:
        """TVM's structural hash, 16 hexadecimal digits."""
        return f"{tvm_ffi.structural_hash(skeleton):016x}"

    structural_hash = identity
    """The same of a whole module."""

    def equal(self, left: tvm.IRModule, right: tvm.IRModule) -> bool:
        """TVM's structural equality."""
        return bool(tvm_ffi.structural_equal(left, right))

    def write(self, skeleton: tvm.IRModule) -> str:
        """TVM's JSON."""
        return str(tvm.ir.save_json(skeleton))

    def read(self, text: str) -> tvm.IRModule:
        """From TVM's JSON."""
        return tvm.ir.load_json(text)

    def build(self, module: tvm.IRModule, options: BuildOptions, folder: Path) -> Artifact:
        """Lower, generate code, and link it with the virtual machine's program and the weights into one library."""
        context = tvm.transform.PassContext(
            opt_level=APPLY_LEVEL,
            required_pass=list(options.required),
            disabled_pass=list(options.disabled),
            config=dict(options.config),
        )
        try:
            with self.target, context:
                is_planned = options.opt_level > 0 or planned(module)
                ready = lowered(module.clone(), level=options.opt_level, target=self.target)
                library = relax.build(ready, self.target, relax_pipeline=None)
                folder.mkdir(parents=True, exist_ok=True)
                library.export_library(str(folder / NETWORK), cc=require_linker())
        except FAULTS as error:
            raise CompileError(error_line(error)) from error
        size = (folder / NETWORK).stat().st_size
        return Artifact(folder, size, planned_bytes(ready) if is_planned else None, kernels_digest(ready))

    def digest(self, artifact: Artifact) -> str:
        """Of the library, weights included."""
        return artifact_digest(artifact.folder)

    def save(self, module: tvm.IRModule, path: Path) -> None:
        """TVM's JSON, constants included; ``load`` of it, as format ``ir``, has the same identity."""
        path.write_text(tvm.ir.save_json(module))

    def save_with_external_weights(self, module: tvm.IRModule, path: Path) -> None:
        """TVM's JSON without large constants, which go into a parameter file."""
        ir_file.save_with_external_weights(module, path)

    def open(self, artifact: Artifact, device: str) -> VirtualMachineExecutable:
        """Load onto a device."""
        return VirtualMachineExecutable(artifact, device)


def _parse_target(text: str) -> tvm.target.Target:
    return tvm.target.Target(target_options(text))
