"""Front end for TorchScript files, which do not name their inputs."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from passsearch.core import TensorType, format_input
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import EXPORT_ADVICE, ModelRequest


def from_path(path: Path, request: ModelRequest) -> ModelFile:
    """Return a TorchScript file with the inputs that the user names.

    Raises:
        UserError: The file is another kind of archive, the user names no inputs, or the batch does not fit them.
    """
    if not _holds_code(path):
        if zipfile.is_zipfile(path):
            raise UserError(f"`{request.source}` holds weights without their network; {EXPORT_ADVICE}")
        raise UserError(f"`{request.source}` is not TorchScript; save torch.jit.trace(module, inputs), or export ONNX.")
    return with_inputs(path, request, name=path.stem, inputs=request.complete_inputs("TorchScript"))


def with_inputs(
    path: Path,
    request: ModelRequest,
    *,
    name: str,
    inputs: Mapping[str, TensorType],
    kind: Literal["torchscript", "exported"] = "torchscript",
) -> ModelFile:
    """Return a TorchScript file or a torch.export archive whose input types are fixed.

    Args:
        path: The file.
        request: The options of the user, which must agree with ``inputs``.
        name: Short name for reports and folders.
        inputs: The input types, in the order of the network's arguments.
        kind: The format of the file.

    Raises:
        UserError: The user states other inputs, or a batch that does not fit.
    """
    names = ", ".join(format_input(input_name, type_) for input_name, type_ in inputs.items())
    for input_name, type_ in request.inputs.items():
        if inputs.get(input_name) != type_:
            text = format_input(input_name, type_)
            raise UserError(f"`{text}` contradicts the example inputs ({names}); leave it out.")
    if request.batch is not None and all(type_.shape[:1] != (request.batch,) for type_ in inputs.values()):
        raise UserError(f"Batch {request.batch} does not fit the inputs ({names}); leave one of them out.")
    return ModelFile(path, kind, name, request.source, digest_files((path,)), dict(inputs))


def _holds_code(path: Path) -> bool:
    """Return true for an archive with code; a checkpoint is an archive too, but holds weights only."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())
