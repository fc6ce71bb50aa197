"""Code and bombs in files of networks, found without opening them by their framework.

Most frameworks run what a file asks for while they load it. Each check reads the format itself and allows by list: what
is not known to compute only from its inputs is named, so that the file is refused unless the user trusts it.
"""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

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
from passsearch.frontends.mxnet_file import parameters_beside

__all__ = ["DANGER", "SAVED_MODEL", "find_code"]

DANGER = "could run code, read other files or fill the memory"
"""What a file could do that ``find_code`` finds something in."""

Check: TypeAlias = Callable[[Path], Iterator[str]]

_MOST_SHOWN = 5

_FAULTS = (
    *(ValueError, RecursionError, zipfile.BadZipFile, SyntaxError, NotImplementedError, OSError, KeyError, TypeError),
    *(AttributeError, IndexError, MemoryError, EOFError, OverflowError),
)
"""Errors of readers that meet a file that is no such file."""


def find_code(path: Path) -> list[str]:
    """Return, in words, everything in a network's file that is not known to be data only.

    Args:
        path: The file or folder. It is read by none of the frameworks that networks are from.
    """
    found: dict[str, None] = {}
    for check in _checks_of(path):
        try:
            found |= dict.fromkeys(check(path))
        except _FAULTS as error:
            found[f"parts that cannot be checked ({_reason(error)})"] = None
    shown = list(found)[:_MOST_SHOWN]
    return [*shown, f"and {len(found) - len(shown)} more"] if len(found) > len(shown) else shown


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())[:80]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _checks_of(path: Path) -> tuple[Check, ...]:
    if path.is_dir():
        if (path / SAVED_MODEL).is_file():
            return (tensorflow_graph.in_saved_model,)
        return (transformers_folder.in_folder,) if (path / transformers_folder.CONFIGURATION).is_file() else ()
    is_archive = path.is_file() and zipfile.is_zipfile(path)
    by_ending: dict[str, tuple[Check, ...]] = {
        ".pt2": (exported_program.in_exported_program,) if is_archive else (),  # else the front end refuses it
        ".pt": (torch_script.in_script,) if is_archive else (),
        # Keras 2 opens a file of either ending by its content.
        ".keras": (keras.in_archive if is_archive else keras.in_hdf5,),
        ".h5": (keras.in_hdf5,),
        "-symbol.json": (mxnet.in_symbol, lambda path: mxnet.in_parameters(parameters_beside(path))),
        ".json": (compiler_module.in_module,),
        ".onnx": (onnx_graph.in_model,),
        ".pb": (tensorflow_graph.in_frozen_graph,),
        ".tflite": (tflite.in_file,),
    }
    # The whole name, as the front ends take it: a file named `.h5` has no suffix.
    return next((checks for ending, checks in by_ending.items() if path.name.endswith(ending)), ())
