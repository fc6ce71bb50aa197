"""PyTorch modules to ONNX, or to TorchScript where ONNX has no word for what they do."""

from __future__ import annotations

import hashlib
import inspect
import io
import logging
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends.model_file import keep_bytes, keep_file, kept_name

OPSET = 13

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(rb"[./]?___torch_mangle_\d+")

# What tracing and exporting raise: torch's own errors are RuntimeErrors, the rest comes from the traced code.
_REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ImportError)


@dataclass(frozen=True)
class TorchExport:
    """A module as a file.

    Attributes:
        path: ``.onnx``, or ``.pt`` for TorchScript.
        name: Of its class.
        inputs: Its inputs in order.
    """

    path: Path
    name: str
    inputs: Mapping[str, TensorType]


def export(module: Any, example_inputs: object, *, folder: Path) -> TorchExport:
    """Export a module as it infers; its training flags stay as they were.

    Args:
        module: A ``torch.nn.Module``, scripted or not.
        example_inputs: A tensor, a tuple of tensors, or a mapping by argument name; shapes become fixed.
        folder: Where the file goes, under a name made from its content.

    Raises:
        UserError: Example inputs are missing or no tensors, or the module cannot be traced with them.
        EnvironmentFault: ``folder`` cannot be written.
    """
    name = getattr(module, "original_name", type(module).__name__)
    by_name = isinstance(example_inputs, Mapping)
    tensors = _named(module, example_inputs)
    inputs = {key: TensorType(tuple(each.shape), _dtype(each)) for key, each in tensors.items()}
    with _inferring(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = _onnx(module, tensors, by_name=by_name)
            return TorchExport(keep_bytes(folder, data, name=name, suffix=".onnx"), name, inputs)
        except _REFUSALS as refusal:
            _log.info("`%s` has no ONNX form (%s); exporting TorchScript.", name, _line(refusal))
        try:
            script = _traced(module, tensors, by_name=by_name)
        except _REFUSALS as refusal:
            raise UserError(
                f"Cannot trace `{name}` with these example inputs ({_line(refusal)}); give what it takes."
            ) from refusal
        return TorchExport(_keep_torchscript(script, name=name, folder=folder), name, inputs)


def _named(module: Any, example_inputs: object) -> dict[str, torch.Tensor]:
    """Tensors by argument name, in the order of the module's arguments."""
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
        given = example_inputs if isinstance(example_inputs, tuple | list) else (example_inputs,)
        names = arguments if len(arguments) >= len(given) else [f"input_{index}" for index in range(len(given))]
        values = dict(zip(names, given, strict=False))
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            raise UserError(f"Example input `{name}` is a `{type(value).__name__}`; give a tensor, a tuple or a dict.")
    return values


def _arguments(module: Any) -> list[str]:
    forward = module.forward
    if isinstance(module, torch.jit.ScriptModule):
        return [argument.name for argument in forward.schema.arguments[1:]]
    parameters = inspect.signature(forward).parameters.values()
    return [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


@contextmanager
def _inferring(module: Any) -> Iterator[None]:
    """Evaluation mode without gradients; each submodule gets its own flag back, frozen ones included."""
    flags = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for each, flag in flags:
            each.training = flag


def _onnx(module: Any, tensors: Mapping[str, torch.Tensor], *, by_name: bool) -> bytes:
    file: Any = io.BytesIO()
    # A refused export prints the graph, by default between the caller's own output.
    torch._C._jit_set_onnx_log_output_stream("stderr")
    # A mapping in the last place is read as keyword arguments; an empty one says that there are none.
    arguments = (dict(tensors),) if by_name else (*tensors.values(), {})
    torch.onnx.export(module, arguments, file, dynamo=False, opset_version=OPSET, input_names=list(tensors))
    return bytes(file.getvalue())


def _traced(module: Any, tensors: Mapping[str, torch.Tensor], *, by_name: bool) -> Any:
    if isinstance(module, torch.jit.ScriptModule):
        return module
    trace: Any = torch.jit.trace
    if by_name:
        return trace(module, example_kwarg_inputs=dict(tensors), strict=False, check_trace=False)
    return trace(module, tuple(tensors.values()), strict=False, check_trace=False)


def _keep_torchscript(script: Any, *, name: str, folder: Path) -> Path:
    file = io.BytesIO()
    torch.jit.save(script, file)
    return keep_file(
        folder, kept_name(name, _digest(file), suffix=".pt"), write=lambda path: path.write_bytes(file.getvalue())
    )


def _digest(archive: io.BytesIO) -> str:
    """Digest of a TorchScript archive that does not depend on what this process traced before.

    Class names carry a running number, and the debug entries hold nothing of the network.
    """
    digest = hashlib.sha256()
    with zipfile.ZipFile(archive) as entries:
        kept = [name for name in entries.namelist() if not name.endswith(".debug_pkl") and "/." not in name]
        pairs = (name.encode() + b"\0" + entries.read(name) for name in kept)
        for pair in sorted(hashlib.sha256(_NUMBERED.sub(b"", pair)).digest() for pair in pairs):
            digest.update(pair)
    return digest.hexdigest()


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
