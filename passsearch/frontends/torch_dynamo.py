"""Graphs that ``torch.compile`` gives to a compiler, as modules with constant weights."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import torch

from passsearch.errors import UserError
from passsearch.frontends.request import first_line
from passsearch.frontends.source_runtimes.torch_runtime import ERRORS
from passsearch.frontends.torch_call import tensor_results
from passsearch.frontends.torch_gradient import without_gradient

LEAST_OPERATORS = 3
"""Number of operators from which on a graph is compiled: a shorter one takes microseconds in eager mode."""

PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)

Function: TypeAlias = Callable[..., Any]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_RESUMED = re.compile(r"torch_dynamo_resume_in_(?P<function>\w+)_at_\d+")
"""Name that Dynamo gives to the rest of a function behind a graph break."""


class GraphPart:
    """A graph that Dynamo has cut out of a program.

    Attributes:
        name: The lines of the program where it begins and ends, and the number of its operators.
        operators: The number of its operators.
        module: A module of its inputs alone; its weights are attributes.
        examples: Examples of these inputs.
    """

    def __init__(self, graph: Any, examples: Sequence[Any]) -> None:
        """Keep the graph.

        Args:
            graph: The graph, a function of weights and inputs.
            examples: Its arguments: weights as they are now, examples of inputs.
        """
        self._graph, self._arguments = graph, examples
        self._nodes = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        self.operators = len(self._nodes)
        self.name = _name(self._nodes)
        self._inputs = [place for place, value in enumerate(examples) if not _is_weight(value)]
        self.examples = tuple(examples[place] for place in self._inputs)
        self.module = _WithWeights(graph, examples, self._inputs)

    def refuse_training(self) -> None:
        """Raise ``UserError`` for a graph that computes what is for training only."""
        for node in self._nodes:
            if _trains(node):
                raise UserError(
                    f"`{getattr(node.target, '__name__', node.target)}` in {self.name} is in training mode, and "
                    "passsearch compiles inference: call `eval()` on the module before, or train without torch.compile."
                )

    @property
    def key(self) -> object:
        """What decides the result of a compilation: operators, values of weights, types of inputs."""
        weights = [(_state(weight), weight.stride()) for weight in self._weights(self._arguments)]
        types = [(value.dtype, value.shape) for value in self._arguments]
        # Another graph may have other constants under the same names.
        own = id(self._graph) if any(node.op in ("get_attr", "call_module") for node in self._graph.graph.nodes) else 0
        return str(self._graph.code), own, tuple(weights), tuple(types)

    def obstacle(self) -> str:
        """Return why the graph must run eagerly; empty if nothing is against compiling it."""
        if not all(type(value) in PLAIN_TENSORS for value in self._arguments):
            return "its sizes are open, or an input is no plain tensor; torch.compile(…, dynamic=False) fixes sizes"
        devices = {value.device.type for value in self._arguments} - {"cpu"}
        if devices:
            return f"a tensor is on {devices.pop()}; only tensors of the CPU are compiled"
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on, and a network is compiled in its own precision"
        if any(weight.is_inference() for weight in self._weights(self._arguments)):
            return "a weight was made in inference mode, in which PyTorch does not count writes"
        try:
            return self._shared_memory()
        except ERRORS as error:
            return f"it does not run on its own ({first_line(error)})"

    def _shared_memory(self) -> str:
        """Run the graph; return which memory its results share, or which argument it writes."""
        copies = [value.detach().clone() for value in self._arguments]
        versions = [value._version for value in copies]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            results = tensor_results(self._graph(*copies))
        if any(value._version != version for value, version in zip(copies, versions, strict=True)):
            return "it writes one of its inputs"
        if not results:
            return "it returns no tensor"
        if any(_overlap(result, value) for result in results for value in copies):
            return "a result is a view of an input"
        if any(one is not other and _overlap(one, other) for one, other in combinations(results, 2)):
            return "two results share memory"
        return ""

    def function(self, network: Function) -> Function:
        """Return a function of all arguments, with a compiled network in place of the graph.

        Where a weight has another value than it had, the graph itself runs.

        Args:
            network: The compiled network of ``module``.
        """
        # The tensors are kept: as long as they live, no other tensor gets their memory.
        weights = [*self._weights(self._arguments)]
        kept = [weight.detach() for weight in weights]
        states = [*map(_state, kept)]
        told = False

        def run(*arguments: Any) -> Any:
            nonlocal told
            present = [*self._weights(arguments)]
            if [*map(_state, present)] != states:
                if not told:
                    told = True
                    tell_eager(self.name, "its weights have changed; torch._dynamo.reset() has it compiled again")
                return self._graph(*arguments)
            inputs = [arguments[place] for place in self._inputs]
            if not torch.is_grad_enabled():
                return network(*inputs)
            return without_gradient(network, inputs, *(weight for weight in present if weight.requires_grad))

        return run

    def eager(self) -> Function:
        """Return the graph as PyTorch runs it."""
        eager: Function = self._graph.forward
        return eager

    def _weights(self, arguments: Sequence[Any]) -> Iterator[torch.Tensor]:
        given = set(self._inputs)
        yield from (value for place, value in enumerate(arguments) if place not in given)
        yield from self._graph.parameters()
        yield from self._graph.buffers()


def outside_inference_mode() -> AbstractContextManager[None]:
    """Return a context in which tensors count writes, as an export needs, also within ``torch.inference_mode()``."""
    context: AbstractContextManager[None] = torch.inference_mode(mode=False)
    return context


def tell_eager(name: str, reason: str) -> None:
    """Warn that a part of the program runs eagerly."""
    warnings.warn(f"passsearch leaves {name} to PyTorch: {reason}.", RuntimeWarning, stacklevel=2)


class _WithWeights(torch.nn.Module):  # type: ignore[misc]
    """A graph with its weights as buffers, so that a compiler has their values."""

    def __init__(self, graph: Any, arguments: Sequence[Any], inputs: Sequence[int]) -> None:
        super().__init__()
        self.graph, self._inputs, self._count = graph, inputs, len(arguments)
        for place, value in enumerate(arguments):
            if place not in set(inputs):
                self.register_buffer(f"weight_{place}", value.detach())

    def forward(self, *inputs: Any) -> Any:
        """Run the graph."""
        given = dict(zip(self._inputs, inputs, strict=True))
        arguments = [given[at] if at in given else getattr(self, f"weight_{at}") for at in range(self._count)]
        return self.graph(*arguments)


def _is_weight(value: Any) -> bool:
    """Return whether an argument of a graph is a parameter, a buffer or another tensor of the module."""
    # Dynamo marks them, because their memory stays where it is from call to call.
    return isinstance(value, torch.nn.Parameter) or hasattr(value, "_dynamo_static_input_type")


def _state(tensor: torch.Tensor) -> tuple[int, int | None]:
    """Return what changes when a tensor is written or gets other memory; writes to its ``data`` are not counted."""
    return tensor.data_ptr(), None if tensor.is_inference() else tensor._version


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors share memory, or lie in each other's gaps, where nobody looks closer."""
    if not one.numel() or not other.numel() or one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    (begin, end), (first, last) = _extent(one), _extent(other)
    return begin < last and first < end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a tensor's first byte, and that after its last one."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size()


def _trains(node: Any) -> bool:
    """Return whether an operator is for training only: one that drops values or keeps statistics of a batch."""
    try:
        bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)
    except (TypeError, ValueError):  # functions in C++ have no signature
        return bool(node.kwargs.get("dropout_p", 0.0))
    bound.apply_defaults()
    given = bound.arguments
    if not given.get("training", False):
        return False
    return given["running_mean"] is not None if "running_mean" in given else bool(given.get("p", 1.0))


def _name(nodes: Sequence[Any]) -> str:
    """Return the lines where a graph begins and ends, and its size."""
    places = [match for node in nodes for match in [*_FRAME.finditer(node.meta.get("stack_trace") or "")][-1:]]
    size = f"{len(nodes)} operators"
    if not places:
        return f"a graph of {size}"
    first, last = places[0], places[-1]
    end = "" if first["line"] == last["line"] else f" to {last['line']}"
    function = _RESUMED.sub(r"\g<function>", first["function"])
    return f"`{function}` ({Path(first['file']).name}, line {first['line']}{end}; {size})"
