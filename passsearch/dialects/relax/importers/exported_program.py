"""Programs that ``torch.export`` wrote; the front end has bound their dimensions."""

import torch
import tvm
from tvm.relax.frontend.torch import from_exported_program

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tvm.IRModule:
    """The exported graph, weights as constants."""
    program = torch.export.load(source.path)
    module: tvm.IRModule = from_exported_program(program, unwrap_unit_return_tuple=True)
    return module
