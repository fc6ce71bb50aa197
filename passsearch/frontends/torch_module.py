"""Front end for PyTorch modules: they become ONNX files or, if ONNX has no form for them, files of PyTorch's own.

ONNX comes first: importing it needs no PyTorch beside the compiler, and every dialect gets the same network.
"""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal, TypeAlias
from unittest.mock import patch

import onnx
import torch

from passsearch.core import DeclaredInput, TensorType, require_trust
from passsearch.core.torch_program import register_operators
from passsearch.dialects.onnx_widening import has_halves
from passsearch.errors import UserError
from passsearch.frontends import onnx_file, torchscript_file
from passsearch.frontends.model_file import ModelFile, cache_file_name, save_bytes, save_file
from passsearch.frontends.onnx_agreement import HALF_TOLERANCE, TOLERANCE, disagrees
from passsearch.frontends.request import ModelRequest, first_line
from passsearch.frontends.source_runtimes.torch_runtime import ERRORS as _ERRORS
from passsearch.frontends.source_runtimes.torch_runtime import TorchModule, to_array
from passsearch.frontends.torch_aliases import without_writes
from passsearch.frontends.torch_call import TorchCall, argument_names, program_call, read_call, tensor_results
from passsearch.frontends.torch_checks import check_run, refuse_compiled, tell_training_mode
from passsearch.frontends.torch_state import inference_mode, preserved

OPSET = 14
"""The first operator set to which PyTorch exports fused attention."""

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Variable by which PyTorch loads tensors and nothing else."""

SAFE_TORCH = "2.6"
"""First PyTorch whose safe mode holds."""

Prepare: TypeAlias = Callable[[], AbstractContextManager[None]]

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(rb"[./]?___torch_mangle_\d+")


def from_module(module: Any, request: ModelRequest, *, prepare: Prepare = nullcontext) -> ModelFile:
    """Export a module in inference mode; the module and the state of random generators are as before afterwards.

    The example inputs are those of ``read_call``. The network gets their shapes.

    Args:
        module: The module.
        request: The options of the user.
        prepare: Returns a context in which the module is exported.

    Raises:
        UserError: Example inputs are missing or are not tensors, the module is compiled, cannot be traced with them,
            keeps a state from one run to the next or draws random numbers, or they contradict the inputs or
            the batch that the user states.
        EnvironmentFault: The folder cannot be written.
    """
    refuse_compiled(module)
    call = read_call(module, request.example_inputs)
    if isinstance(module, torch.jit.ScriptModule):
        _check_no_gaps(module, call.tensors)
        # Its attributes are in C++, where nothing else keeps and restores them.
        module = copy.deepcopy(module)
    name = str(getattr(module, "original_name", type(module).__name__))
    return _export(module, request=request, name=name, call=call, prepare=prepare)


def from_program(program: Any, request: ModelRequest, *, name: str = "program") -> ModelFile:
    """Export an ``ExportedProgram`` with its dynamic dimensions bound.

    Raises:
        UserError: An input is not a tensor or stays open, or ``from_module`` refuses the program's module.
        EnvironmentFault: The folder cannot be written.
    """
    declared = list(_declared_inputs(program))
    types = request.bind_inputs(each for each in declared if isinstance(each, DeclaredInput))
    inputs = [_example(each.name, types) if isinstance(each, DeclaredInput) else each for each in declared]
    call = program_call(program.call_spec.in_spec, inputs)
    return _export(program.module(), request=request, name=name, call=call)


def _example(name: str, types: Mapping[str, TensorType]) -> tuple[str, torch.Tensor]:
    return name, torch.zeros(types[name].shape, dtype=getattr(torch, types[name].dtype))


def from_archive(path: Path, request: ModelRequest) -> ModelFile:
    """Load a file that ``torch.export.save`` wrote, and export its program.

    Raises:
        UserError: The file is no such archive, or ``from_program`` refuses the program.
        EnvironmentFault: The folder cannot be written.
    """
    if torch.__version__ < SAFE_TORCH:
        reason = f"PyTorch {torch.__version__} has no safe mode (CVE-2025-32434), {SAFE_TORCH} has one"
        require_trust(request.source, [reason], trust=request.trust, otherwise="export it as ONNX")
    try:
        with _safe_load(request):
            register_operators(path)
            program = torch.export.load(path)
    except (*_ERRORS, OSError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise UserError(
            f"Cannot read `{request.source}` as a torch.export archive ({first_line(error)}); "
            "write it with torch.export.save, or export ONNX."
        ) from error
    return from_program(program, request, name=path.stem)


@contextmanager
def _safe_load(request: ModelRequest) -> Iterator[None]:
    """Make PyTorch refuse pickled code, unless the user trusts the file."""
    # `torch.export.load` has no argument for it: where the safe mode refuses a file, it loads the file without it.
    earlier = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "0" if request.trust else "1"
    try:
        yield
    finally:
        if earlier is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = earlier


def _export(
    module: Any, *, request: ModelRequest, name: str, call: TorchCall, prepare: Prepare = nullcontext
) -> ModelFile:
    """Write a module as ONNX if possible, else in a format of PyTorch.

    Args:
        module: The module to export.
        request: The options of the user.
        name: Short name for reports and folders.
        call: The module's arguments.
        prepare: Returns a context in which the module is exported.
    """
    tell_training_mode(module, name)
    try:
        with prepare(), preserved(module) as state, inference_mode(module):
            checked = check_run(module, call, name=name, state=state)
    except _ERRORS as error:
        raise UserError(_untraceable(name, error)) from error

    def plain() -> Any:
        # A script may contain branches; a trace through the wrapper would keep only the branch that the examples take.
        if isinstance(module, torch.jit.ScriptModule):
            return module
        wrapped = _Plain(module, call).eval()
        return without_writes(wrapped, call) if checked.has_aliases else wrapped

    @contextmanager
    def running() -> Iterator[None]:
        with prepare(), inference_mode(module):
            yield

    def with_torch() -> ModelFile:
        with running(), preserved(module):
            kind, path = _save_with_torch(plain(), call, name=name, request=request)
        inputs = {key: TensorType(tuple(tensor.shape), _dtype(tensor)) for key, tensor in call.tensors.items()}
        file = torchscript_file.with_inputs(path, request, name=name, inputs=inputs, kind=kind)
        return replace(file, live=live, form=checked.form)

    def live() -> TorchModule:
        return TorchModule(module, call, running=running)

    begin_s = monotonic()
    try:
        with running(), preserved(module):
            data = _export_onnx(plain(), call)
    except _ERRORS as error:
        _log.info("`%s` has no ONNX form; saving it in a format of PyTorch.", name)
        _log.debug("The ONNX exporter failed: %s", first_line(error))
        return with_torch()
    export_s = monotonic() - begin_s
    path = save_bytes(request.folder, data, name=name, suffix=".onnx")
    file = onnx_file.from_path(path, request, name=name)
    is_half = has_halves(onnx.load(path, load_external_data=False))
    inputs = {key: to_array(tensor) for key, tensor in call.tensors.items()}
    if disagrees(path, inputs, checked.results, tolerance=HALF_TOLERANCE if is_half else TOLERANCE):
        _log.info("The ONNX file of `%s` computes something else; saving it in a format of PyTorch.", name)
        # Without such a form, the comparison of the import with the module decides.
        with suppress(UserError):
            return with_torch()
    # PyTorch rounds to 16 bits after each operator, so the file in float32 is the more exact reference.
    source = None if is_half else live
    return replace(file, otherwise=with_torch, export_s=export_s, live=source, form=checked.form)


# The names `_Plain` and `module` stand in the files that PyTorch writes. Another name would change the digest of every
# such file, and a run that is resumed would not recognise its network.
class _Plain(torch.nn.Module):  # type: ignore[misc]
    """A wrapper with tensors as its only arguments and results, which is the form that compilers import."""

    def __init__(self, module: Any, call: TorchCall) -> None:
        super().__init__()
        self.module = module
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the tensors among the module's results: a tuple, or the tensor itself if there is only one."""
        values, by_name = self.call.arguments(tensors)
        results = tuple(tensor_results(self.module(*values, **by_name)))
        return results[0] if len(results) == 1 else results


def _declared_inputs(program: Any) -> Iterator[DeclaredInput | bool | str | None]:
    """Yield the inputs of an exported program; a dynamic dimension is named by its symbol. A setting is its value."""
    nodes = {node.name: node for node in program.graph.nodes}
    for name in program.graph_signature.user_inputs:
        value = nodes[name].meta["val"] if name in nodes else name
        if value is None or isinstance(value, bool):
            yield value
            continue
        if not isinstance(value, torch.Tensor):
            raise UserError(f"The exported program takes `{value}`, which is no tensor; export it with tensors only.")
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        yield DeclaredInput(name, shape, _dtype(value))


def _check_no_gaps(module: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    # A scripted module takes tensors by position, so a tensor after a gap would become the wrong argument.
    arguments = argument_names(module)
    gap = next((name for name, actual in zip(arguments, tensors, strict=False) if name != actual), None)
    if gap is not None:
        raise UserError(
            f"A scripted module needs its arguments without gaps: `{gap}` is missing before `{list(tensors)[-1]}`; "
            f"give it too, or script a module without it."
        )


def _export_onnx(module: Any, call: TorchCall) -> bytes:
    file: Any = io.BytesIO()
    torch.onnx.register_custom_op_symbolic("aten::unfold", _windows, OPSET)
    try:
        # A failing exporter prints the whole graph into the output of the user's program, and enables that itself.
        with patch.object(torch._C, "_jit_onnx_log", lambda *_: None):
            torch.onnx.export(
                module, call.copies(), file, dynamo=False, opset_version=OPSET, input_names=list(call.tensors)
            )
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::unfold", OPSET)
    return bytes(file.getvalue())


def _windows(graph: Any, data: Any, dimension: Any, size: Any, step: Any) -> Any:
    """Write ``Tensor.unfold`` in ONNX; PyTorch's own form joins the windows along a wrong axis if it is negative."""
    axis, width, stride = (each.node().t("value").item() for each in (dimension, size, step))
    sizes = data.type().sizes()
    axis %= len(sizes)
    starts = torch.arange(0, sizes[axis] - width + 1, stride)
    indices = graph.op("Constant", value_t=starts[:, None] + torch.arange(width))
    # Gather puts both dimensions of the indices in the place of the axis; PyTorch has the windows' elements last.
    order = [place for place in range(len(sizes) + 1) if place != axis + 1]
    return graph.op("Transpose", graph.op("Gather", data, indices, axis_i=axis), perm_i=[*order, axis + 1])


def _save_with_torch(
    module: Any, call: TorchCall, *, name: str, request: ModelRequest
) -> tuple[Literal["exported", "torchscript"], Path]:
    """Save a module in the format of PyTorch that the compiler imports; TorchScript if it imports both."""
    archive: Any = io.BytesIO()
    as_program = "exported" in request.formats and "torchscript" not in request.formats
    try:
        if as_program:
            torch.export.save(torch.export.export(module, call.copies(), strict=False), archive)
        else:
            torch.jit.save(_to_script(module, call), archive)
    except _ERRORS as error:
        advice = "give what it takes"
        if as_program and isinstance(module, torch.jit.ScriptModule):
            advice = "this compiler takes scripted modules as ONNX only"
        raise UserError(_untraceable(name, error, advice=advice)) from error
    file_name = cache_file_name(name, _digest(archive), suffix=".pt2" if as_program else ".pt")
    path = save_file(request.folder, file_name, write=lambda path: path.write_bytes(archive.getvalue()))
    return "exported" if as_program else "torchscript", path


def _untraceable(name: str, error: BaseException, *, advice: str = "give what it takes") -> str:
    return f"Cannot trace `{name}` with these example inputs ({first_line(error)}); {advice}."


def _to_script(module: Any, call: TorchCall) -> Any:
    if isinstance(module, torch.jit.ScriptModule):
        return module
    trace: Any = torch.jit.trace
    return trace(module, call.copies(), strict=False, check_trace=False)


def _digest(archive: io.BytesIO) -> str:
    """Return a digest of PyTorch's archive that does not depend on what this process traced before."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(archive) as entries:
        # Debug entries describe the source code, and hidden ones PyTorch's serialisation; neither is the network.
        names = [name for name in entries.namelist() if not name.endswith(".debug_pkl") and "/." not in name]
        pairs = (name.encode() + b"\0" + entries.read(name) for name in names)
        # PyTorch numbers classes of the same name in the order in which the process traced them, and orders the
        # entries by these names.
        for pair in sorted(hashlib.sha256(_NUMBERED.sub(b"", pair)).digest() for pair in pairs):
            digest.update(pair)
    return digest.hexdigest()


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
