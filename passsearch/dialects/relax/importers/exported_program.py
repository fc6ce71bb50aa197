"""Programs that ``torch.export`` wrote; the front end has bound their dimensions and knows what inputs are called."""

from typing import Any

import torch
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax.frontend.torch import from_exported_program

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tvm.IRModule:
    """The exported graph, weights as constants."""
    module = from_exported_program(torch.export.load(source.path), unwrap_unit_return_tuple=True)
    main = module["main"]
    renamed = {old.__chandle__(): relax.Var(name, old.ty) for old, name in zip(main.params, source.inputs, strict=True)}

    def new(variable: Any) -> Any:
        return renamed.get(variable.__chandle__(), variable)

    body = tvm_ffi.structural_map(main.body, (relax.Var, new))
    module["main"] = relax.Function(list(renamed.values()), body, main.ret_ty, main.is_pure, main.attrs)
    return module
