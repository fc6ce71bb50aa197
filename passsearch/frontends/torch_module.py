"""PyTorch modules to ONNX; where it has no word for what they do, to an exported program or to TorchScript.

ONNX first, as importing it needs no PyTorch beside the compiler, and is the same network for every dialect.
"""

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
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from passsearch.core import DeclaredInput, TensorType
from passsearch.errors import UserError
from passsearch.frontends import onnx_file, torchscript_file
from passsearch.frontends.model_file import ModelFile, cache_file_name, keep_bytes, keep_file
from passsearch.frontends.request import Asked, first_line

OPSET = 14
"""The first with words for fused attention."""

_log = logging.getLogger(__name__)

_MODES = {"train", "eval"}

_NUMBERED = re.compile(rb"[./]?___torch_mangle_\d+")

# What tracing and exporting raise: torch's own errors are RuntimeErrors, the rest comes from the traced code.
_REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ImportError)


def from_module(module: Any, asked: Asked) -> ModelFile:
    """Export a module as it infers; its training flags stay as they were.

    The example inputs are a tensor, a tuple of tensors, or a mapping by argument name; their shapes become fixed.

    Raises:
        UserError: Example inputs are missing or no tensors, the module cannot be traced with them, or the inputs or the
            batch that are given contradict them.
        EnvironmentFault: The folder cannot be written.
    """
    tensors = _named(module, asked.example_inputs)
    by_name = isinstance(asked.example_inputs, Mapping)
    if isinstance(module, torch.jit.ScriptModule):
        _refuse_gaps(module, tensors)
    call = ((), tensors) if by_name else (tuple(tensors.values()), {})
    name = str(getattr(module, "original_name", type(module).__name__))
    return _exported(module, tensors, asked=asked, name=name, call=tree_flatten(call)[1])


def from_program(program: Any, asked: Asked, *, name: str = "program") -> ModelFile:
    """An ``ExportedProgram``, its dynamic dimensions bound.

    Raises:
        UserError: It takes more than tensors, dimensions stay open, or as ``from_module``.
        EnvironmentFault: The folder cannot be written.
    """
    inputs = asked.settle(_declared(program))
    tensors = {each: torch.zeros(kind.shape, dtype=getattr(torch, kind.dtype)) for each, kind in inputs.items()}
    return _exported(program.module(), tensors, asked=asked, name=name, call=program.call_spec.in_spec)


def from_archive(path: Path, asked: Asked) -> ModelFile:
    """What ``torch.export.save`` wrote.

    Raises:
        UserError: It is no such archive, or as ``from_program``.
        EnvironmentFault: The folder cannot be written.
    """
    try:
        program = torch.export.load(path)
    except (*_REFUSALS, OSError, zipfile.BadZipFile) as error:
        raise UserError(
            f"Cannot read `{asked.source}` as a torch.export archive ({first_line(error)}); "
            "write it with torch.export.save, or export ONNX."
        ) from error
    return from_program(program, asked, name=path.stem)


def _exported(module: Any, tensors: Mapping[str, torch.Tensor], *, asked: Asked, name: str, call: Any) -> ModelFile:
    """As ONNX if it can be; ``call`` is the structure of the call that the tensors are the leaves of."""
    with _inferring(module), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A script may branch: it is exported as it is, not by what it does with the examples.
        plain = module if isinstance(module, torch.jit.ScriptModule) else _Plain(module, call).eval()
        try:
            data = _onnx(plain, tensors)
        except _REFUSALS as refusal:
            _log.info("`%s` has no ONNX form (%s); exporting what PyTorch has.", name, first_line(refusal))
            kind, path = _kept_by_torch(plain, tensors, name=name, asked=asked)
            inputs = {key: TensorType(tuple(each.shape), _dtype(each)) for key, each in tensors.items()}
            return torchscript_file.settled(path, asked, name=name, inputs=inputs, kind=kind)
    path = keep_bytes(asked.folder, data, name=name, suffix=".onnx")
    return onnx_file.from_path(path, asked, name=name)


class _Plain(torch.nn.Module):  # type: ignore[misc]
    """A module that takes tensors in order and answers with tensors only, which is what compilers import."""

    def __init__(self, module: Any, call: Any) -> None:
        super().__init__()
        self.module = module
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The tensors of what the module answers, in order; one alone as itself."""
        values, by_name = tree_unflatten(tensors, self.call)
        kept = tuple(each for each in tree_leaves(self.module(*values, **by_name)) if isinstance(each, torch.Tensor))
        return kept[0] if len(kept) == 1 else kept


def _declared(program: Any) -> Iterator[DeclaredInput]:
    """The inputs of an exported program; a dynamic dimension goes by its symbol."""
    nodes = {node.name: node for node in program.graph.nodes}
    for name in program.graph_signature.user_inputs:
        value = nodes[name].meta["val"] if name in nodes else name
        if not isinstance(value, torch.Tensor):
            raise UserError(f"The exported program takes `{value}`, which is no tensor; export it with tensors only.")
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        yield DeclaredInput(name, shape, _dtype(value))


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
    # An exported program's module refuses both calls, by attributes of its own; the exporter makes them too.
    refusals = [(each, {call: vars(each).pop(call) for call in _MODES & vars(each).keys()}) for each, _ in flags]
    fast = torch.backends.mha.get_fastpath_enabled()
    # Its one operator for a whole layer is in no other format.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        module.eval()
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for each, flag in flags:
            each.training = flag
        for each, calls in refusals:
            vars(each).update(calls)


def _refuse_gaps(module: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """A script takes tensors by place, so one that is left out would give its place to the next."""
    arguments = _arguments(module)
    gap = next((name for name, given in zip(arguments, tensors, strict=False) if name != given), None)
    if gap is not None:
        raise UserError(
            f"A scripted module needs its arguments without gaps: `{gap}` is missing before `{list(tensors)[-1]}`; "
            f"give it too, or script a module without it."
        )


def _onnx(module: Any, tensors: Mapping[str, torch.Tensor]) -> bytes:
    file: Any = io.BytesIO()
    # A refused export prints the graph, by default between the caller's own output.
    torch._C._jit_set_onnx_log_output_stream("stderr")
    torch.onnx.export(
        module, tuple(tensors.values()), file, dynamo=False, opset_version=OPSET, input_names=list(tensors)
    )
    return bytes(file.getvalue())


def _kept_by_torch(
    module: Any, tensors: Mapping[str, torch.Tensor], *, name: str, asked: Asked
) -> tuple[Literal["exported", "torchscript"], Path]:
    """The module in a format of PyTorch's own: the one its compiler imports, TorchScript if that is either."""
    archive: Any = io.BytesIO()
    exported = "exported" in asked.formats and "torchscript" not in asked.formats
    try:
        if exported:
            torch.export.save(torch.export.export(module, tuple(tensors.values()), strict=False), archive)
        else:
            torch.jit.save(_script(module, tensors), archive)
    except _REFUSALS as refusal:
        told = f"Cannot trace `{name}` with these example inputs ({first_line(refusal)})"
        if exported and isinstance(module, torch.jit.ScriptModule):
            raise UserError(f"{told}; this compiler takes scripted modules as ONNX only.") from refusal
        raise UserError(f"{told}; give what it takes.") from refusal
    kept = cache_file_name(name, _digest(archive), suffix=".pt2" if exported else ".pt")
    path = keep_file(asked.folder, kept, write=lambda path: path.write_bytes(archive.getvalue()))
    return "exported" if exported else "torchscript", path


def _script(module: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(module, torch.jit.ScriptModule):
        return module
    trace: Any = torch.jit.trace
    return trace(module, tuple(tensors.values()), strict=False, check_trace=False)


def _digest(archive: io.BytesIO) -> str:
    """Digest of an archive of PyTorch's that does not depend on what this process traced before.

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
