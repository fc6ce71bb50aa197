"""TorchScript archives, which do not name their inputs."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from passsearch.core import TensorType, format_input
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import Asked


def from_path(path: Path, asked: Asked) -> ModelFile:
    """A TorchScript file with the inputs that the user names.

    Raises:
        UserError: It is another kind of archive, its inputs are not given, or the batch does not fit them.
    """
    if not _holds_code(path):
        raise UserError(f"`{asked.source}` is not TorchScript; save torch.jit.trace(module, inputs), or export ONNX.")
    if not asked.inputs:
        raise UserError("TorchScript does not name its inputs; give each in order as --input name:dtype[shape].")
    return settled(path, asked, name=path.stem, inputs=asked.inputs)


def settled(
    path: Path,
    asked: Asked,
    *,
    name: str,
    inputs: Mapping[str, TensorType],
    kind: Literal["torchscript", "exported"] = "torchscript",
) -> ModelFile:
    """A file of PyTorch's own kinds whose inputs are known.

    Raises:
        UserError: The given inputs contradict them, or the batch does not fit.
    """
    names = ", ".join(format_input(each, kind) for each, kind in inputs.items())
    for given, wanted in asked.inputs.items():
        if inputs.get(given) != wanted:
            raise UserError(f"`{format_input(given, wanted)}` contradicts the example inputs ({names}); leave it out.")
    if asked.batch is not None and all(kind.shape[:1] != (asked.batch,) for kind in inputs.values()):
        raise UserError(f"Batch {asked.batch} does not fit the inputs ({names}); leave one of them out.")
    return ModelFile(path, kind, name, asked.source, digest_files((path,)), dict(inputs))


def _holds_code(path: Path) -> bool:
    """Whether it is an archive with code; a checkpoint is an archive without."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())
