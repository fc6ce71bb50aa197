"""Importer of programs that ``torch.export`` wrote. The front end has bound their dimensions and named their inputs."""

from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from passsearch.core.torch_program import register_operators
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.torch_quantized import quantized_converters
from passsearch.dialects.relax.importers.torch_recurrent import recurrent_converters, without_steps


def _import(program: torch.export.ExportedProgram) -> tvm.IRModule:
    recurrent = recurrent_converters(program)
    converters = {**recurrent, **quantized_converters(program)}
    if recurrent:
        program = without_steps(program, torch.export.default_decompositions())
    return from_exported_program(
        program,
        unwrap_unit_return_tuple=True,
        custom_convert_map=converters,
        run_ep_decomposition=not recurrent,
    )


def read(source: ModelSource) -> tvm.IRModule:
    """Return the exported graph, its weights as constants."""
    register_operators(source.path)
    module = _import(torch.export.load(source.path))
    main = module["main"]
    # TVM's importer renames inputs; these get back the names that the user knows.
    inputs = {old.__chandle__(): relax.Var(name, old.ty) for old, name in zip(main.params, source.inputs, strict=True)}

    def rename(variable: Any) -> Any:
        return inputs.get(variable.__chandle__(), variable)

    body = tvm_ffi.structural_map(main.body, (relax.Var, rename))
    module["main"] = relax.Function(list(inputs.values()), body, main.ret_ty, main.is_pure, main.attrs)
    return module
