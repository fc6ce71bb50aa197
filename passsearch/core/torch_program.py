"""Loading of programs that ``torch.export.save`` wrote, quantised ones too."""

import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

_QUANTIZED = b"quantized_decomposed"


def load_program(path: Path | str) -> Any:
    """Load a program of ``torch.export``; those that ``pt2e`` quantised have operators that PyTorch registers late.

    Raises:
        What ``torch.export.load`` raises.
    """
    import torch

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            graphs = [name for name in archive.namelist() if name.endswith(".json")]
            if any(_QUANTIZED in archive.read(name) for name in graphs):
                import_module("torch.ao.quantization.fx._decomposed")
    return torch.export.load(path)
