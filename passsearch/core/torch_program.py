"""Operators of quantised programs that ``torch.export.save`` wrote."""

import zipfile
from importlib import import_module
from pathlib import Path

from passsearch.errors import EnvironmentFault

_QUANTIZED = b"quantized_decomposed"


def register_operators(path: Path | str) -> None:
    """Have PyTorch register what ``pt2e`` writes into a program, if it is in one; to be called before it is loaded.

    Raises:
        EnvironmentFault: This PyTorch has no such operators.
    """
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        graphs = [name for name in archive.namelist() if name.endswith(".json")]
        is_quantized = any(_QUANTIZED in archive.read(name) for name in graphs)
    if is_quantized:
        try:
            import_module("torch.ao.quantization.fx._decomposed")
        except ImportError as error:
            raise EnvironmentFault(
                f"PyTorch's pt2e quantised `{path}`, and the installed PyTorch lacks its operators ({error}); "
                "install the PyTorch that wrote the file."
            ) from error
