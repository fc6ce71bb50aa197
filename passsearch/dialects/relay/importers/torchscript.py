"""TorchScript files."""

from collections.abc import Mapping

import torch
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """The traced graph as it infers.

    Raises:
        UserError: No inputs are given, which the file does not name.
    """
    if not source.inputs:
        raise UserError("TorchScript does not name its inputs; give each as --input name:dtype[shape].")
    scripted = torch.jit.load(str(source.path), map_location="cpu").eval()
    shapes = [(name, (list(kind.shape), kind.dtype)) for name, kind in source.inputs.items()]
    module, params = relay.frontend.from_pytorch(scripted, shapes)
    return module, params
