"""Front end for PyTorch modules: they become ONNX files or, if ONNX has no form for them, files of PyTorch's own.

ONNX comes first: importing it needs no PyTorch beside the compiler, and every dialect gets the same network.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import logging
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from unittest.mock import patch

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from passsearch.core import DeclaredInput, TensorType, require_trust
from passsearch.errors import UserError
from passsearch.frontends import onnx_file, torchscript_file
from passsearch.frontends.model_file import ModelFile, cache_file_name, save_bytes, save_file
from passsearch.frontends.request import ModelRequest, first_line

OPSET = 14
"""The first operator set to which PyTorch exports fused attention."""

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Variable by which PyTorch loads tensors and nothing else."""

SAFE_TORCH = "2.6"
"""First PyTorch whose safe mode holds."""

Prepare: TypeAlias = Callable[[], AbstractContextManager[None]]

_log = logging.getLogger(__name__)

_MODES = {"train", "eval"}

_NUMBERED = re.compile(rb"[./]?___torch_mangle_\d+")

# Errors of tracing and exporting: PyTorch's own are RuntimeErrors, the others come from the module's code.
_ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ImportError)


def from_module(module: Any, request: ModelRequest, *, prepare: Prepare = nullcontext) -> ModelFile:
    """Export a module in inference mode; its training flags are restored afterwards.

    The example inputs are a tensor, a tuple of tensors, or a mapping by argument name. The network gets their shapes.

    Args:
        module: The module.
        request: The options of the user.
        prepare: Returns a context in which the module is exported.

    Raises:
        UserError: Example inputs are missing or are not tensors, the module cannot be traced with them, or they
            contradict the inputs or the batch that the user states.
        EnvironmentFault: The folder cannot be written.
    """
    tensors = _name_tensors(module, request.example_inputs)
    by_name = isinstance(request.example_inputs, Mapping)
    if isinstance(module, torch.jit.ScriptModule):
        _check_no_gaps(module, tensors)
    call = ((), tensors) if by_name else (tuple(tensors.values()), {})
    name = str(getattr(module, "original_name", type(module).__name__))
    return _export(module, tensors, request=request, name=name, call=tree_flatten(call)[1], prepare=prepare)


def from_program(program: Any, request: ModelRequest, *, name: str = "program") -> ModelFile:
    """Export an ``ExportedProgram`` with its dynamic dimensions bound.

    Raises:
        UserError: An input is not a tensor or stays open, or ``from_module`` refuses the program's module.
        EnvironmentFault: The folder cannot be written.
    """
    inputs = request.bind_inputs(_declared_inputs(program))
    tensors = {key: torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype)) for key, kind in inputs.items()}
    return _export(program.module(), tensors, request=request, name=name, call=program.call_spec.in_spec)


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
    module: Any,
    tensors: Mapping[str, torch.Tensor],
    *,
    request: ModelRequest,
    name: str,
    call: Any,
    prepare: Prepare = nullcontext,
) -> ModelFile:
    """Write a module as ONNX if possible, else in a format of PyTorch.

    Args:
        module: The module to export.
        tensors: Example tensors by input name.
        request: The options of the user.
        name: Short name for reports and folders.
        call: The structure of the module's arguments, whose leaves are the tensors.
        prepare: Returns a context in which the module is exported.
    """

    def plain() -> Any:
        # A script may contain branches; a trace through the wrapper would keep only the branch that the examples take.
        return module if isinstance(module, torch.jit.ScriptModule) else _Plain(module, call).eval()

    def with_torch() -> ModelFile:
        with prepare(), _inference_mode(module):
            kind, path = _save_with_torch(plain(), tensors, name=name, request=request)
        inputs = {key: TensorType(tuple(tensor.shape), _dtype(tensor)) for key, tensor in tensors.items()}
        return torchscript_file.with_inputs(path, request, name=name, inputs=inputs, kind=kind)

    try:
        with prepare(), _inference_mode(module):
            data = _export_onnx(plain(), tensors)
    except _ERRORS as error:
        _log.info("`%s` has no ONNX form; saving it in a format of PyTorch.", name)
        _log.debug("The ONNX exporter failed: %s", first_line(error))
        return with_torch()
    path = save_bytes(request.folder, data, name=name, suffix=".onnx")
    return replace(onnx_file.from_path(path, request, name=name), otherwise=with_torch)


# The names `_Plain` and `module` stand in the files that PyTorch writes. Another name would change the digest of every
# such file, and a run that is resumed would not recognise its network.
class _Plain(torch.nn.Module):  # type: ignore[misc]
    """A wrapper with tensors as its only arguments and results, which is the form that compilers import."""

    def __init__(self, module: Any, call: Any) -> None:
        super().__init__()
        self.module = module
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the tensors among the module's results: a tuple, or the tensor itself if there is only one."""
        values, by_name = tree_unflatten(tensors, self.call)
        results = tuple(leaf for leaf in tree_leaves(self.module(*values, **by_name)) if isinstance(leaf, torch.Tensor))
        return results[0] if len(results) == 1 else results


def _declared_inputs(program: Any) -> Iterator[DeclaredInput]:
    """Yield the inputs of an exported program; a dynamic dimension is named by its symbol."""
    nodes = {node.name: node for node in program.graph.nodes}
    for name in program.graph_signature.user_inputs:
        value = nodes[name].meta["val"] if name in nodes else name
        if not isinstance(value, torch.Tensor):
            raise UserError(f"The exported program takes `{value}`, which is no tensor; export it with tensors only.")
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        yield DeclaredInput(name, shape, _dtype(value))


def _name_tensors(module: Any, example_inputs: object) -> dict[str, torch.Tensor]:
    """Return the example tensors by argument name, in the order of the module's arguments."""
    if example_inputs is None:
        raise UserError("A torch module needs example inputs, for example example_inputs=torch.randn(1, 3, 224, 224).")
    arguments = _arguments(module)
    if isinstance(example_inputs, Mapping):
        values = {str(name): value for name, value in example_inputs.items()}
        unknown = sorted(set(values) - set(arguments))
        if unknown and arguments:
            raise UserError(f"Unknown example input `{unknown[0]}`; the arguments are: {', '.join(arguments)}.")
        values = {name: values[name] for name in (*arguments, *unknown) if name in values}
    else:
        sequence = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
        names = arguments if len(arguments) >= len(sequence) else [f"input_{index}" for index in range(len(sequence))]
        values = dict(zip(names, sequence, strict=False))
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            raise UserError(f"Example input `{name}` is a `{type(value).__name__}`; give a tensor, a tuple or a dict.")
    return values


def _arguments(module: Any) -> list[str]:
    """Return the names of the arguments of a module's ``forward``."""
    forward = module.forward
    if isinstance(module, torch.jit.ScriptModule):
        return [argument.name for argument in forward.schema.arguments[1:]]
    parameters = inspect.signature(forward).parameters.values()
    return [entry.name for entry in parameters if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)]


@contextmanager
def _inference_mode(module: Any) -> Iterator[None]:
    """Switch a module to evaluation without gradients, and restore the flag of every submodule afterwards."""
    flags = [(part, part.training) for part in module.modules()]
    # The module of an exported program has attributes in place of `train` and `eval` that raise when they are called.
    # The ONNX exporter calls both, so the attributes are removed for the time of the export.
    overrides = [(part, {name: vars(part).pop(name) for name in _MODES & vars(part).keys()}) for part, _ in flags]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    # The fast path runs a whole encoder layer as one operator, which no other format has.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        module.eval()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        # One by one: `module.train()` would also switch the submodules that the user keeps in evaluation mode.
        for part, flag in flags:
            part.training = flag
        for part, attributes in overrides:
            vars(part).update(attributes)


def _check_no_gaps(module: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    # A scripted module takes tensors by position, so a tensor after a gap would become the wrong argument.
    arguments = _arguments(module)
    gap = next((name for name, actual in zip(arguments, tensors, strict=False) if name != actual), None)
    if gap is not None:
        raise UserError(
            f"A scripted module needs its arguments without gaps: `{gap}` is missing before `{list(tensors)[-1]}`; "
            f"give it too, or script a module without it."
        )


def _export_onnx(module: Any, tensors: Mapping[str, torch.Tensor]) -> bytes:
    file: Any = io.BytesIO()
    torch.onnx.register_custom_op_symbolic("aten::unfold", _windows, OPSET)
    try:
        # A failing exporter prints the whole graph into the output of the user's program, and enables that itself.
        with patch.object(torch._C, "_jit_onnx_log", lambda *_: None):
            torch.onnx.export(
                module, tuple(tensors.values()), file, dynamo=False, opset_version=OPSET, input_names=list(tensors)
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
    module: Any, tensors: Mapping[str, torch.Tensor], *, name: str, request: ModelRequest
) -> tuple[Literal["exported", "torchscript"], Path]:
    """Save a module in the format of PyTorch that the compiler imports; TorchScript if it imports both."""
    archive: Any = io.BytesIO()
    as_program = "exported" in request.formats and "torchscript" not in request.formats
    try:
        if as_program:
            torch.export.save(torch.export.export(module, tuple(tensors.values()), strict=False), archive)
        else:
            torch.jit.save(_to_script(module, tensors), archive)
    except _ERRORS as error:
        reason = f"Cannot trace `{name}` with these example inputs ({first_line(error)})"
        if as_program and isinstance(module, torch.jit.ScriptModule):
            raise UserError(f"{reason}; this compiler takes scripted modules as ONNX only.") from error
        raise UserError(f"{reason}; give what it takes.") from error
    file_name = cache_file_name(name, _digest(archive), suffix=".pt2" if as_program else ".pt")
    path = save_file(request.folder, file_name, write=lambda path: path.write_bytes(archive.getvalue()))
    return "exported" if as_program else "torchscript", path


def _to_script(module: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(module, torch.jit.ScriptModule):
        return module
    trace: Any = torch.jit.trace
    return trace(module, tuple(tensors.values()), strict=False, check_trace=False)


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
