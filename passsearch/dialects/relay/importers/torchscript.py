"""Importer of TorchScript files."""

from collections.abc import Mapping

import torch
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the traced graph in inference mode, and its parameters."""
    # TorchScript does not store input shapes, so the front end has required them from the user.
    scripted = torch.jit.load(str(source.path), map_location="cpu").eval()
    shapes = [(name, (list(kind.shape), kind.dtype)) for name, kind in source.inputs.items()]
    module, params = relay.frontend.from_pytorch(scripted, shapes)
    return module, params
