"""TorchScript files."""

from collections.abc import Mapping

import torch
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """The traced graph as it infers; the front end has asked for its inputs."""
    scripted = torch.jit.load(str(source.path), map_location="cpu").eval()
    shapes = [(name, (list(kind.shape), kind.dtype)) for name, kind in source.inputs.items()]
    module, params = relay.frontend.from_pytorch(scripted, shapes)
    return module, params
