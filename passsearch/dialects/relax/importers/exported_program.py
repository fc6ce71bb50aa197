"""Importer of programs that ``torch.export`` wrote. The front end has bound their dimensions and named their inputs."""

from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tvm.IRModule:
    """Return the exported graph, its weights as constants."""
    module = from_exported_program(torch.export.load(source.path), unwrap_unit_return_tuple=True)
    main = module["main"]
    # TVM's importer renames inputs; these get back the names that the user knows.
    inputs = {old.__chandle__(): relax.Var(name, old.ty) for old, name in zip(main.params, source.inputs, strict=True)}

    def rename(variable: Any) -> Any:
        return inputs.get(variable.__chandle__(), variable)

    body = tvm_ffi.structural_map(main.body, (relax.Var, rename))
    module["main"] = relax.Function(list(inputs.values()), body, main.ret_ty, main.is_pure, main.attrs)
    return module
