"""Operators of quantised programs that ``torch.export.save`` wrote."""

import zipfile
from importlib import import_module
from pathlib import Path

from passsearch.errors import UserError

_QUANTIZED = b"quantized_decomposed"


def register_operators(path: Path | str) -> None:
    """Have PyTorch register what ``pt2e`` writes into a program, if it is in one; to be called before it is loaded.

    Raises:
        UserError: This PyTorch does not have these operators.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        graphs = [name for name in archive.namelist() if name.endswith(".json")]
        if any(_QUANTIZED in archive.read(name) for name in graphs):
            try:
                import_module("torch.ao.quantization.fx._decomposed")
            except ImportError as error:
                raise UserError(
                    f"`{path}` was quantised by PyTorch's pt2e, whose operators this PyTorch does not have ({error}); "
                    "use another PyTorch, or quantise an ONNX file (QuantizeLinear and DequantizeLinear)."
                ) from error
