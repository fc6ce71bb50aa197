"""Code and bombs in files of networks, found without opening them by their framework.

Most frameworks run what a file asks for while they load it. Each check reads the format itself and allows by list: what
is not known to compute only from its inputs is named, so that the file is refused unless the user trusts it.
"""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from passsearch.core import require_trust
from passsearch.errors import UserError
from passsearch.frontends.foreign import (
    compiler_module,
    exported_program,
    keras,
    mxnet,
    onnx_graph,
    tensorflow_graph,
    tflite,
    torch_script,
    transformers_folder,
)
from passsearch.frontends.foreign.tensorflow_graph import SAVED_MODEL
from passsearch.frontends.foreign.wire import CUT
from passsearch.frontends.mxnet_file import parameters_beside

__all__ = ["SAVED_MODEL", "find_code", "require_harmless"]

Check: TypeAlias = Callable[[Path], Iterator[str]]

_DANGER = "could run code, read other files or fill the memory"
_MOST_SHOWN = 5
_LONGEST_PART = 200

_FAULTS = (
    *(ValueError, RecursionError, zipfile.BadZipFile, SyntaxError, NotImplementedError, OSError, KeyError, TypeError),
    *(AttributeError, IndexError, MemoryError, EOFError, OverflowError),
)
"""Errors of readers that meet a file that is no such file."""


@dataclass(frozen=True)
class _Format:
    """A kind of file.

    Attributes:
        name: Its name for messages, with an article.
        checks: What finds code in it.
    """

    name: str
    checks: tuple[Check, ...]


def require_harmless(source: str, path: Path, *, trust: bool) -> None:
    """Refuse a network's file that is not known to be data only, unless the user trusts it; then tell what is in it.

    Args:
        source: The file, by the name that the user knows.
        path: The file or folder. It is read by none of the frameworks that networks are from.
        trust: True if the user trusts the file.

    Raises:
        UserError: It holds more than data or cannot be read, and is not trusted.
    """
    form = _format_of(path)
    code, faults = _look(form, path)
    if faults and not code and not trust:
        remedy = "export the network again, or give --trust (trust=True) to let its framework read it"
        if faults[0] in CUT:
            remedy = "it ends too early or is no such file: copy it again, or export the network again"
        raise UserError(f"Cannot read `{source}` as {form.name} ({faults[0]}); {remedy}.")
    way = "export the network again, with its weights beside it" if path.suffix == ".onnx" else "export it as ONNX"
    require_trust(source, _shown(code, faults), trust=trust, danger=_DANGER, otherwise=way)


def find_code(path: Path) -> list[str]:
    """Return, in words, everything in a network's file that is not known to be data only.

    Args:
        path: The file or folder. It is read by none of the frameworks that networks are from.
    """
    return _shown(*_look(_format_of(path), path))


def _shown(code: list[str], faults: list[str]) -> list[str]:
    parts = [*code, *(f"parts that cannot be checked ({fault})" for fault in faults)]
    shown = parts[:_MOST_SHOWN]
    return [*shown, f"and {len(parts) - len(shown)} more"] if len(parts) > len(shown) else shown


def _look(form: _Format, path: Path) -> tuple[list[str], list[str]]:
    """Return what the checks of a format find, and why they could not look."""
    if not path.is_file() and not path.is_dir():
        return [], ["no file"]
    code: dict[str, None] = {}
    faults = [fault for check in form.checks if (fault := _run(check, path, code))]
    return list(code), faults


def _run(check: Check, path: Path, code: dict[str, None]) -> str:
    """Add what a check finds; return why it could not look, or nothing."""
    try:
        for part in check(path):
            code[part if len(part) <= _LONGEST_PART else f"{part[:_LONGEST_PART]}…"] = None
    except _FAULTS as error:
        return " ".join(str(error).split())[:80] or type(error).__name__
    return ""


def _format_of(path: Path) -> _Format:
    if path.is_dir():
        if (path / SAVED_MODEL).is_file():
            return _Format("a SavedModel", (tensorflow_graph.in_saved_model,))
        is_folder = (path / transformers_folder.CONFIGURATION).is_file()
        return _Format("a folder of transformers", (transformers_folder.violations_in_folder,) if is_folder else ())
    is_archive = path.is_file() and zipfile.is_zipfile(path)
    by_ending = {
        # The front ends refuse files of PyTorch that are no archives.
        ".pt2": _Format("a torch.export archive", (exported_program.in_exported_program,) if is_archive else ()),
        ".pt": _Format("TorchScript", (torch_script.violations_in_script,) if is_archive else ()),
        # Keras 2 opens a file of either ending by its content.
        ".keras": _Format("a Keras model", (keras.violations_in_archive if is_archive else keras.violations_in_hdf5,)),
        ".h5": _Format("a Keras model", (keras.violations_in_hdf5,)),
        "-symbol.json": _Format(
            "an MXNet symbol with its parameters", (mxnet.violations_in_symbol, _violations_in_parameters)
        ),
        ".json": _Format("a compiler module", (compiler_module.violations_in_module,)),
        ".onnx": _Format("ONNX", (onnx_graph.violations_in_model,)),
        ".pb": _Format("a TensorFlow graph", (tensorflow_graph.in_frozen_graph,)),
        ".tflite": _Format("TFLite", (tflite.violations_in_file,)),
    }
    # The whole name, as the front ends take it: a file named `.h5` has no suffix.
    found = (form for ending, form in by_ending.items() if path.name.endswith(ending))
    return next(found, _Format("a network", ()))


def _violations_in_parameters(path: Path) -> Iterator[str]:
    return mxnet.violations_in_parameters(parameters_beside(path))
