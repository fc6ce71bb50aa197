"""ONNX networks that are taken apart: any nodes as a network of their own, without names, notes and weights.

A part is built anew from operators, attributes and types, so nothing else of the original can be in it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from passsearch.errors import UserError
from passsearch.frontends.onnx_constants import (
    attribute_values,
    graphs_of,
    kept_reason,
    lift_from_branches,
    nodes_of,
    random_array,
    with_constants_as_weights,
)
from passsearch.frontends.onnx_sizes import resize

if TYPE_CHECKING:
    import onnx

STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Domains of operators that say nothing of the network's owner."""


@dataclass(frozen=True)
class Part:
    """Some nodes of a network as a network of their own.

    Attributes:
        model: The network.
        weights: Original name of each weight, by its name in the part.
        fits: Whether its sizes fit together.
    """

    model: onnx.ModelProto
    weights: Mapping[str, str]
    fits: bool = True

    @property
    def parameters(self) -> int:
        """Number of the values of its weights."""
        return sum(math.prod(weight.dims) for weight in self.model.graph.initializer)

    @property
    def nodes(self) -> int:
        """Number of its nodes."""
        return len(self.model.graph.node)

    @property
    def attributes(self) -> list[str]:
        """Attributes and branches that hold values of the original."""
        return attribute_values(self.model.graph)

    def save(self, path: Path) -> None:
        """Write the network."""
        path.write_bytes(self.model.SerializeToString())


class OnnxParts:
    """A network of fixed sizes, and its parts.

    A part begins at inputs of the network and at values of floats whose size is known: a value of integers may be an
    index or a size, which a random one is not, so the nodes that compute it stay.
    """

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            UserError: The network has functions or sparse weights, which cannot be taken apart.
        """
        import onnx
        from onnx import inliner

        model = onnx.load(str(path))
        if model.functions:
            model = inliner.inline_local_functions(model)
        if model.graph.sparse_initializer:
            raise UserError(f"`{path.name}` has sparse weights, which cannot be taken apart; store them as dense ones.")
        with_constants_as_weights(model)
        lift_from_branches(model)
        self._opsets = {each.domain: each.version for each in model.opset_import}
        self._ir_version, self._graph = model.ir_version, model.graph
        self.nodes: Sequence[onnx.NodeProto] = list(model.graph.node)
        self.weights = {weight.name: weight for weight in model.graph.initializer}
        self._types = _value_types(model)
        self._read = [tuple(_names_read(node)) for node in self.nodes]
        self._producer = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def reasons(self) -> Mapping[str, str]:
        """Why a weight must keep its values, by its name; weights without an entry may get random ones."""
        nodes = nodes_of(self._graph)
        return {name: reason for name in self.weights if (reason := kept_reason(nodes, self.weights[name]))}

    def part(
        self, nodes: Collection[int], *, original: Collection[str], sizes: Mapping[int, int] = MappingProxyType({})
    ) -> Part:
        """Return a network of these nodes.

        Args:
            nodes: Places of the nodes.
            original: Weights that keep their values; all others get random ones.
            sizes: Sizes to be replaced, with those that replace them.
        """
        from onnx import helper

        places = sorted(self._complete(nodes))
        made = {name for place in places for name in self.nodes[place].output}
        read = dict.fromkeys(name for place in places for name in self._read[place])
        inputs = [name for name in read if name not in made and name not in self.weights]
        weights = [name for name in read if name in self.weights]
        names = {**_numbered("x", inputs), **_numbered("w", weights), "": ""}
        outputs = [name for place in places for name in self._open_outputs(place, places)]
        names |= _numbered("y", outputs)
        names |= _numbered("v", [name for place in places for name in self.nodes[place].output if name not in names])
        graph = helper.make_graph(
            [_renamed(self.nodes[place], names) for place in places],
            "network",
            [self._value(name, names[name]) for name in inputs],
            [self._value(name, names[name]) for name in outputs],
            [self._weight(name, names[name], number, original) for number, name in enumerate(weights)],
        )
        domains = {"", *(self.nodes[place].domain for place in places)}
        opsets = [helper.make_opsetid(name, version) for name, version in self._opsets.items() if name in domains]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=self._ir_version, producer_name="")
        fits = not sizes or resize(model, sizes, original=[names[name] for name in weights if name in original])
        return Part(model, {names[name]: name for name in weights}, fits)

    def foreign_names(self, nodes: Collection[int]) -> list[str]:
        """Return the operators of a part that are of no known set; their names stay."""
        places = sorted(self._complete(nodes))
        operators = {f"{node.domain}:{node.op_type}" for place in places if (node := self.nodes[place]).domain}
        foreign = {name for name in operators if name.partition(":")[0] not in STANDARD_DOMAINS}
        return sorted(foreign)

    def _complete(self, nodes: Collection[int]) -> set[int]:
        """Return nodes with those that compute what no part can begin with."""
        complete, waiting = set(nodes), list(nodes)
        while waiting:
            for name in self._read[waiting.pop()]:
                place = self._producer.get(name)
                if place is not None and place not in complete and not self._is_cut(name):
                    complete.add(place)
                    waiting.append(place)
        return complete

    def _is_cut(self, name: str) -> bool:
        from onnx import TensorProto

        kind = self._types.get(name)
        if kind is None or kind.tensor_type.elem_type not in (
            *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16),
        ):
            return False
        shape = kind.tensor_type.shape
        return kind.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in shape.dim)

    def _open_outputs(self, place: int, places: Sequence[int]) -> Iterator[str]:
        """Yield the outputs of a node that the network returns, or that nodes outside of a part read."""
        inside = {name for other in places for name in self._read[other]}
        for name in self.nodes[place].output:
            if name in self._returned or (name in self._read_anywhere and name not in inside):
                yield name

    @cached_property
    def _returned(self) -> set[str]:
        return {value.name for value in self._graph.output}

    @cached_property
    def _read_anywhere(self) -> set[str]:
        return {name for names in self._read for name in names if name}

    def _value(self, name: str, new: str) -> onnx.ValueInfoProto:
        import onnx

        value = onnx.ValueInfoProto(name=new)
        kind = self._types.get(name)
        if kind is not None and kind.HasField("tensor_type"):
            value.type.tensor_type.elem_type = kind.tensor_type.elem_type
            if all(dim.HasField("dim_value") for dim in kind.tensor_type.shape.dim):
                value.type.tensor_type.shape.SetInParent()
                for dim in kind.tensor_type.shape.dim:
                    value.type.tensor_type.shape.dim.add(dim_value=dim.dim_value)
        return value

    def _weight(self, name: str, new: str, number: int, original: Collection[str]) -> onnx.TensorProto:
        import numpy as np
        from onnx import numpy_helper

        tensor = self.weights[name]
        if name in original:
            return numpy_helper.from_array(np.array(numpy_helper.to_array(tensor)), new)
        return numpy_helper.from_array(random_array(tensor, seed=number), new)


def _value_types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Return the types of values by name, as far as they follow from those of the inputs."""
    from onnx import shape_inference

    del model.graph.value_info[:]
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except (
        shape_inference.InferenceError,
        RuntimeError,
        ValueError,
    ):  # an operator that it does not know, or a model over 2 GiB
        inferred = model
    values = (*model.graph.output, *inferred.graph.value_info, *inferred.graph.output, *model.graph.input)
    return {value.name: value.type for value in values}


def _names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the values that a node reads, those that its branches take from outside included."""
    yield from (name for name in node.input if name)
    for graph in graphs_of(node):
        own = {name for inner in graph.node for name in inner.output}
        own |= {value.name for value in graph.input} | {weight.name for weight in graph.initializer}
        reads = [name for inner in graph.node for name in _names_read(inner)]
        yield from (name for name in (*reads, *(value.name for value in graph.output)) if name and name not in own)


def _numbered(letter: str, names: Sequence[str]) -> dict[str, str]:
    return {name: f"{letter}{number}" for number, name in enumerate(dict.fromkeys(names)) if name}


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a copy of a node with other names, which has its operator and attributes and nothing else."""
    import onnx

    copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    copy.input.extend(names[name] for name in node.input)
    copy.output.extend(names[name] for name in node.output)
    for attribute in node.attribute:
        new = copy.attribute.add()
        new.CopyFrom(attribute)
        new.ClearField("doc_string")
        tensors: list[Any] = [*([new.t] if new.HasField("t") else []), *new.tensors]
        for tensor in tensors:
            tensor.ClearField("name")
            tensor.ClearField("doc_string")
            del tensor.metadata_props[:]
        for graph in ([new.g] if new.HasField("g") else []) + list(new.graphs):
            _rename_graph(graph, names)
    return copy


def _rename_graph(graph: onnx.GraphProto, outer: Mapping[str, str]) -> None:
    """Give all values of a branch other names; those from outside have theirs in ``outer``."""
    import onnx

    own = [value.name for value in graph.input] + [weight.name for weight in graph.initializer]
    own += [name for node in graph.node for name in node.output]
    # No name of outside may stand for another value inside.
    names = {**outer, **_numbered(f"b{len(outer)}_", own)}
    branch = onnx.GraphProto(
        name="branch",
        node=[_renamed(node, names) for node in graph.node],
        input=[_renamed_value(value, names) for value in graph.input],
        output=[_renamed_value(value, names) for value in graph.output],
        initializer=graph.initializer,
    )
    for weight in branch.initializer:
        weight.name = names[weight.name]
        weight.ClearField("doc_string")
        del weight.metadata_props[:]
    graph.CopyFrom(branch)


def _renamed_value(value: onnx.ValueInfoProto, names: Mapping[str, str]) -> onnx.ValueInfoProto:
    import onnx

    copy = onnx.ValueInfoProto(name=names[value.name])
    copy.type.CopyFrom(value.type)
    copy.type.ClearField("denotation")
    for dim in copy.type.tensor_type.shape.dim if copy.type.HasField("tensor_type") else ():
        dim.ClearField("denotation")
        if dim.HasField("dim_param"):
            dim.ClearField("dim_param")
    return copy
