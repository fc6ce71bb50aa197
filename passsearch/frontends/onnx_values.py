"""ONNX files in which every value is an output, to find the node from which on two runtimes differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files

if TYPE_CHECKING:
    import onnx

SEQUENCES = ("Sequence", "SplitToSequence", "Optional")
"""Beginnings of the names of operators whose values are no tensors."""


@dataclass(frozen=True)
class NodeValue:
    """A value of a graph, by the place of its output.

    Attributes:
        place: Place among the outputs of the file with all values.
        value: Name of the value.
        node: The node that computes it, in words.
        inputs: Names of the values that the node reads.
    """

    place: int
    value: str
    node: str
    inputs: tuple[str, ...]


def with_all_values(file: ModelFile, folder: Path) -> tuple[ModelFile, tuple[NodeValue, ...]]:
    """Return a copy of an ONNX file with the values of all nodes as outputs, and these values in order.

    Raises:
        UserError: The copy is larger than an ONNX file can be.
    """
    import onnx
    from google.protobuf.message import EncodeError

    model = onnx.load(str(file.path))
    outputs = [value.name for value in model.graph.output]
    for node in model.graph.node:
        if not node.op_type.startswith(SEQUENCES):
            outputs += [name for name in node.output if name and name not in outputs]
    known = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name not in known)
    path = folder / "all-values.onnx"
    try:
        onnx.save(model, str(path))
    except (EncodeError, ValueError) as error:
        raise UserError("the file with all values as outputs is over 2 GiB") from error
    copy = replace(file, path=path, sha256=digest_files([path]), otherwise=None, live=None)
    return copy, tuple(_values(model.graph, outputs))


def _values(graph: onnx.GraphProto, outputs: Sequence[str]) -> list[NodeValue]:
    places = {name: place for place, name in enumerate(outputs)}
    return [
        NodeValue(places[name], name, f"`{node.name or node.output[0]}` ({node.op_type})", _inputs(node))
        for node in graph.node
        for name in node.output
        if name in places
    ]


def _inputs(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the values that a node reads, those of its branches included."""
    inner = (inner for each in node.attribute if each.HasField("g") for inner in each.g.node)
    return (*node.input, *(name for each in inner for name in _inputs(each)))


def first_difference(values: Sequence[NodeValue], deviations: Mapping[int, float], *, limit: float) -> str:
    """Return, in words, the first node with a value that deviates, where all values that it reads agree.

    Args:
        values: The values in order.
        deviations: Deviation by the place of an output.
        limit: Largest deviation that agrees.

    Returns:
        The node; empty if there is none.
    """
    wrong = {each.value for each in values if not deviations.get(each.place, 0.0) <= limit}
    first = (each for each in values if each.value in wrong and wrong.isdisjoint(each.inputs))
    return next((each.node for each in first), "")
