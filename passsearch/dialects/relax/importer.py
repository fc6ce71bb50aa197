"""Import model files into Relax, with parameters as constants."""

from dataclasses import replace
from importlib import import_module

import tvm

from passsearch.core import MAIN, Case
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.refusal import refusal_message
from passsearch.dialects.relax import ir_file
from passsearch.dialects.relax.entries import select
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.errors import UserError

READERS = {"onnx": "onnx_graph", "exported": "exported_program"}
"""Module of ``importers`` that reads each format."""


def load(source: ModelSource, *, widens: bool = False) -> tvm.IRModule:
    """Return the module of one model file, with an entry function for each case where there are several.

    Args:
        source: The file.
        widens: True to compute an ONNX network of 16-bit floats in float32.

    Raises:
        UserError: The file cannot be read, it has an operator that TVM lacks, or an input is missing, unknown or open.
    """
    if not source.cases:
        return _load_main(source, widens=widens)
    # A module that a worker has written has its entries already.
    if all(case.function == case.entry for case in source.cases):
        return ir_file.read_entries(source)
    # Cases of open sizes share one function.
    functions = {case.entry: case for case in source.cases}
    entries = {entry: _load_main(_source_of(case, source), widens=widens) for entry, case in functions.items()}
    if entries.keys() == {MAIN}:
        return entries[MAIN]
    return select((entry, module, MAIN) for entry, module in entries.items())


def _source_of(case: Case, source: ModelSource) -> ModelSource:
    """Return the source of one case's function alone."""
    if case.is_symbolic:
        return replace(source, cases=(), inputs={}, batch=None, function=case.function, keep_symbolic=True)
    path = source.case_paths.get(case.entry, source.path)
    return replace(source, path=path, cases=(), inputs=case.inputs, function=case.function)


def _load_main(source: ModelSource, *, widens: bool) -> tvm.IRModule:
    """Return the module of one model file, whose entry function is ``main``.

    Raises:
        UserError: The file cannot be read, it has an operator that TVM lacks, or an input is missing, unknown or open.
    """
    try:
        module: tvm.IRModule = ir_file.read(source) if source.format == "ir" else _read(source, widens=widens)
    except COMPILER_ERRORS as error:
        # The importers have no exception of their own for a network they refuse.
        raise UserError(refusal_message(source, str(error))) from error
    return module


def _read(source: ModelSource, *, widens: bool) -> tvm.IRModule:
    # Imported by name: the module of a framework's format imports the framework, which few toolchains have.
    reader = import_module(f"{__package__}.importers.{READERS[source.format]}")
    module: tvm.IRModule = reader.read(source, **({"widens": widens} if source.format == "onnx" else {}))
    return module
