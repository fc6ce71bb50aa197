"""PyTorch modules and exported programs as PyTorch itself runs them: eagerly, in inference mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, SourceNetwork
from passsearch.errors import UserError
from passsearch.frontends.request import first_line
from passsearch.frontends.torch_call import TorchCall, named_results, tensor_results
from passsearch.frontends.torch_state import ModuleState

ERRORS = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError, ImportError)
"""Errors of running, tracing and exporting: PyTorch's own are RuntimeErrors, the others come from the module's code."""


class TorchModule(SourceNetwork):
    """A module, which is the same before and after each run.

    Attributes:
        output_types: Shape and dtype of each output; set by a run.
    """

    def __init__(self, module: Any, call: TorchCall, *, running: Callable[[], AbstractContextManager[object]]) -> None:
        """Keep the module.

        Args:
            module: The module.
            call: The call that the network was made of.
            running: Returns a context in which the module runs.
        """
        self._module, self._call, self._running = module, call, running
        self._state = ModuleState(module)
        self.runtime = f"PyTorch {torch.__version__}"
        self.output_names: Sequence[str] = ()
        self.output_types: Sequence[TensorType] = ()

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference and return its tensors, in the order of the import.

        Raises:
            UserError: The module raises.
        """
        named = self._named(inputs)
        # The exporter leaves out inputs that the module does not read.
        tensors = [self._tensor(name, named.get(name)) for name in self._call.tensors]
        by_position, by_name = self._call.arguments(tensors)
        try:
            with self._running():
                results = self._module(*by_position, **by_name)
                # Copied before the state is restored, because an output may be a buffer of the module.
                computed = [(name, to_array(value)) for name, value in named_results(results) if _is_tensor(value)]
        except ERRORS as error:
            raise UserError(f"{self.runtime} cannot run it ({first_line(error)})") from error
        finally:
            # A copy of all weights for each run would take longer than the runs.
            self._state.restore(quickly=True)
        self.output_names = [name for name, _ in computed]
        self.output_types = [TensorType(array.shape, str(array.dtype)) for _, array in computed]
        return [array for _, array in computed]

    def _named(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the inputs by the names of the module's arguments; an importer may have renamed them."""
        names = list(self._call.tensors)
        if set(inputs) <= set(names):
            return dict(inputs)
        if len(inputs) != len(names):
            raise UserError(f"the module takes {len(names)} tensors, the import {len(inputs)}")
        return dict(zip(names, inputs.values(), strict=True))

    def _tensor(self, name: str, array: Array | None) -> torch.Tensor:
        example = self._call.tensors[name]
        if array is None:
            return example.clone()
        # A copy, because the module may write its inputs.
        return torch.from_numpy(np.array(array)).to(device=example.device, dtype=example.dtype)


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def to_array(tensor: torch.Tensor) -> Array:
    """Return a copy of a tensor's values; numpy has no bfloat16, which becomes float32."""
    dense = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    dense = dense.dequantize() if dense.is_quantized else dense
    dense = dense.float() if dense.dtype == torch.bfloat16 else dense
    return np.array(dense.resolve_conj().resolve_neg().cpu().numpy())


def intermediate_values(
    program: torch.export.ExportedProgram, inputs: Sequence[torch.Tensor]
) -> Iterator[tuple[str, str, torch.Tensor]]:
    """Yield the tensor of each operator of an exported program: its node, its operator and its value.

    Args:
        program: The program; its state is the same afterwards.
        inputs: Its inputs in order.
    """
    lifted = iter(inputs)
    signature, state = program.graph_signature, {**program.state_dict, **program.constants}
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    arguments = [
        state[targets[node.name]].detach().clone() if node.name in targets else next(lifted)
        for node in program.graph.nodes
        if node.op == "placeholder"
    ]
    recorder = _Recorder(program.graph_module, copies=True)
    with torch.no_grad():
        recorder.run(*arguments)
    yield from ((node.name, str(node.target), value) for node, value in recorder.values)


class AllValues(torch.nn.Module):  # type: ignore[misc]
    """A program's module whose results are followed by the values of all its operators."""

    def __init__(self, program: torch.fx.GraphModule) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the results of the program, then the value of each of its operators."""
        recorder = _Recorder(self.program)
        results = tensor_results(recorder.run(*inputs))
        return *results, *(value for _, value in recorder.values)

    def places(self, *inputs: torch.Tensor) -> list[tuple[int, torch.fx.Node]]:
        """Return the nodes of the values, each with its place among the results."""
        recorder = _Recorder(self.program)
        with torch.no_grad():
            first = len(tensor_results(recorder.run(*inputs)))
        return [(first + place, node) for place, (node, _) in enumerate(recorder.values)]


class _Recorder(torch.fx.Interpreter):  # type: ignore[misc]
    """An interpreter of graphs that keeps every operator's tensor."""

    def __init__(self, module: torch.fx.GraphModule, *, copies: bool = False) -> None:
        super().__init__(module)
        self._copies = copies
        self.values: list[tuple[torch.fx.Node, torch.Tensor]] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node, and keep its value."""
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            # A later operator may write to the tensor.
            self.values.append((n, value.detach().clone() if self._copies else value))
        return value
