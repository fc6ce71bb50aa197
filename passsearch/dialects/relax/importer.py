"""Model files to Relax, with parameters as constants."""

from importlib import import_module

import tvm

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import ir_file
from passsearch.errors import UserError

_REFUSALS = (
    RuntimeError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    IndexError,
    AssertionError,
)
"""What TVM's importers raise of a network they cannot take; the line says which operator."""

READERS = {"onnx": "onnx_graph", "exported": "exported_program"}
"""Module of ``importers`` by format."""


def load(source: ModelSource) -> tvm.IRModule:
    """Import one model file.

    Raises:
        UserError: The file cannot be read, has an operator TVM lacks, or an input is missing, unknown or open.
    """
    reader = ir_file if source.format == "ir" else import_module(f"{__package__}.importers.{READERS[source.format]}")
    try:
        module: tvm.IRModule = reader.read(source)
    except _REFUSALS as error:
        last = (str(error).strip().splitlines() or ["it does not say why"])[-1]
        told = f"TVM's importer of {source.format} refuses it: {last}"
        raise UserError(f"Cannot import `{source.path.name}`: {told}") from error
    return module
