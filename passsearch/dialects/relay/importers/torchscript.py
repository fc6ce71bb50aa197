"""Importer of TorchScript files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import tvm
from tvm import relay

from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the traced graph in inference mode, and its parameters.

    Raises:
        UserError: The network writes a buffer.
    """
    scripted = _load(source)
    _check_stateless(scripted, source)
    # TorchScript does not store input shapes, so the front end has required them from the user.
    shapes = [(name, (list(kind.shape), kind.dtype)) for name, kind in source.inputs.items()]
    module, params = relay.frontend.from_pytorch(scripted, shapes)
    return module, params


def open_source(source: ModelSource) -> SourceNetwork:
    """Open a file as PyTorch runs it."""
    return TorchScript(source)


class TorchScript(SourceNetwork):
    """A TorchScript file as PyTorch runs it, its state the same in each run."""

    def __init__(self, source: ModelSource) -> None:
        self._module, self._source = _load(source), source
        self.runtime = f"PyTorch {torch.__version__}"

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference and return its tensors in order.

        Raises:
            UserError: The network raises.
        """
        return [np.array(tensor.cpu().numpy()) for tensor in _run(self._module, list(inputs.values()))]


def _load(source: ModelSource) -> Any:
    return torch.jit.load(str(source.path), map_location="cpu").eval()


def _run(module: Any, arrays: Sequence[Array]) -> list[torch.Tensor]:
    # Copies, because the network may write its inputs.
    tensors = [torch.from_numpy(np.array(array)) for array in arrays]
    try:
        with torch.no_grad():
            return list(_tensors(module(*tensors)))
    except (RuntimeError, torch.jit.Error) as error:
        # TorchScript prints the code of the network first.
        line = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise UserError(f"PyTorch {torch.__version__} cannot run it ({line})") from error


def _tensors(result: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested results, in order."""
    if isinstance(result, torch.Tensor):
        yield result.detach()
    elif isinstance(result, list | tuple | dict):
        for each in result.values() if isinstance(result, dict) else result:
            yield from _tensors(each)


def _check_stateless(module: Any, source: ModelSource) -> None:
    before = {name: tensor._version for name, tensor in _state(module)}
    assigned = {node.s("name") for node in module.inlined_graph.findAllNodes("prim::SetAttr")}
    # Ones, because a size or a divisor may be among the inputs.
    _run(module, [np.ones([int(size or 1) for size in kind.shape], kind.dtype) for kind in source.inputs.values()])
    written = [name for name, tensor in _state(module) if tensor._version != before.get(name)]
    if written or assigned:
        raise UserError(
            f"Cannot import `{source.name}`: it writes `{[*written, *sorted(assigned)][0]}` when it runs, and an "
            "imported network keeps nothing from one run to the next; make it an argument and return its new value"
        )


def _state(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()
