"""ONNX networks in 16-bit floats, rewritten to compute in float32.

CPUs compute in float32 whatever the type in memory, and TVM's importers read no bfloat16. Weights become float32 of the
same values, inputs are cast at the start and outputs at the end, so that both have the types of the file. What the file
rounds to 16 bits in between is not rounded: a cast to float16 and back keeps numbers beyond 65504, which become
infinite in the file. numpy has no bfloat16, so that inputs and outputs in it become float32; TVM leaves out a rounding
between two casts of one kernel, so that these outputs may be more exact than the file's. Needs no TVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, external_data_helper, helper, numpy_helper

from passsearch.dialects.contract import Array

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""ONNX's numbers of the types with 16 bits."""

TYPES = frozenset({"to", "dtype", "output_dtype", "output_datatype", "precision", "softmax_precision", "stash_type"})
"""Attributes that are the number of a type."""

WIDE = "/float32"
"""End of the name of an input or output in float32."""


def has_halves(model: onnx.ModelProto, kinds: tuple[int, ...] = HALVES) -> bool:
    """Return whether a model has weights, inputs, outputs or casts in these types."""
    values = (*model.graph.input, *model.graph.output)
    return (
        any(value.type.tensor_type.elem_type in kinds for value in values)
        or any(tensor.data_type in kinds for tensor in _tensors(model))
        or any(attribute.i in kinds for attribute in _type_attributes(model))
    )


def must_widen(model: onnx.ModelProto, *, is_cpu: bool) -> bool:
    """Return whether a model computes in float32 where its file has 16 bits: on a CPU, and with bfloat16 everywhere."""
    return has_halves(model, HALVES if is_cpu else (TensorProto.BFLOAT16,))


def widen(model: onnx.ModelProto, folder: Path) -> None:
    """Let a model with 16-bit floats compute in float32.

    Args:
        model: The model, which is changed.
        folder: Folder of the files with its weights.
    """
    for tensor in _tensors(model):
        if tensor.data_type in HALVES:
            _widen_tensor(tensor, folder)
    for attribute in _type_attributes(model):
        if attribute.i in HALVES:
            attribute.i = TensorProto.FLOAT
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights and _is_half(value)]
    # An input may be an output as well, and is one as it is.
    names = {value.name for value in inputs}
    # One that is listed twice is cast once.
    own = {value.name: value for value in model.graph.output if value.name not in names and _is_half(value)}
    outputs = [*own.values()]
    renamed = {value.name: f"{value.name}{WIDE}" for value in (*inputs, *outputs)}
    _rename(model.graph, renamed)
    for value in model.graph.input:
        if value.name in weights:  # a weight that the file lists among its inputs, too
            value.name = renamed.get(value.name, value.name)
    first = [helper.make_node("Cast", [value.name], [f"{value.name}{WIDE}"], to=TensorProto.FLOAT) for value in inputs]
    last = [node for value in outputs for node in _casts_of_output(value)]
    nodes = [*first, *model.graph.node, *last]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    _declare_wide(model, {value.name for value in (*inputs, *outputs)})


def _casts_of_output(value: onnx.ValueInfoProto) -> list[onnx.NodeProto]:
    """Return the nodes that round an output to its type."""
    name, kind = value.name, value.type.tensor_type.elem_type
    if kind == TensorProto.FLOAT16:
        return [helper.make_node("Cast", [f"{name}{WIDE}"], [name], to=kind)]
    return [
        helper.make_node("Cast", [f"{name}{WIDE}"], [f"{name}/rounded"], to=kind),
        helper.make_node("Cast", [f"{name}/rounded"], [name], to=TensorProto.FLOAT),
    ]


def _declare_wide(model: onnx.ModelProto, kept: set[str]) -> None:
    """Declare all values in 16 bits as float32, but for the inputs and outputs in float16."""
    for number, graph in enumerate(_graphs(model)):
        own = kept if number == 0 else set()  # names of branches are their own
        for value in (*graph.input, *graph.output, *graph.value_info):
            is_kept = value.name in own and value.type.tensor_type.elem_type == TensorProto.FLOAT16
            if not is_kept:
                _widen_type(value.type)
    for function in model.functions:
        del function.value_info[:]


def _widen_type(kind: onnx.TypeProto) -> None:
    """Let a type of 16 bits be float32, in sequences and optional values too."""
    if kind.HasField("tensor_type") and kind.tensor_type.elem_type in HALVES:
        kind.tensor_type.elem_type = TensorProto.FLOAT
    for name in ("sequence_type", "optional_type"):
        if kind.HasField(name):
            _widen_type(getattr(kind, name).elem_type)


def _is_half(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in HALVES


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Rename values where nodes make and read them, in branches too; what the graph declares keeps its names."""
    for weight in graph.initializer:
        weight.name = names.get(weight.name, weight.name)
    for node in graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = names.get(name, name)
        for position, name in enumerate(node.output):
            node.output[position] = names.get(name, name)
        for branch in _branches(node):
            # An input of a loop's body hides a value of its name in the graph around it.
            own = {value.name for value in branch.input}
            outer = {name: new for name, new in names.items() if name not in own}
            _rename(branch, outer)
            for value in branch.output:  # a branch may return a value of the graph around it
                value.name = outer.get(value.name, value.name)


def _widen_tensor(tensor: TensorProto, folder: Path) -> None:
    if external_data_helper.uses_external_data(tensor):
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    tensor.CopyFrom(numpy_helper.from_array(_values(tensor), tensor.name))


def _values(tensor: TensorProto) -> Array:
    """Return the numbers of a tensor in 16 bits as float32."""
    if tensor.data_type == TensorProto.FLOAT16:
        return numpy_helper.to_array(tensor).astype(np.float32)
    # Releases of onnx return bfloat16 in different types of array.
    raw = np.frombuffer(tensor.raw_data, "<u2") if tensor.raw_data else np.array(tensor.int32_data, np.uint16)
    return (raw.astype(np.uint32) << 16).view(np.float32).reshape(tuple(tensor.dims))


def _type_attributes(model: onnx.ModelProto) -> Iterator[AttributeProto]:
    for node in _nodes(model):
        # The bits of a number mean nothing in another type.
        if node.op_type != "BitCast":
            yield from (each for each in node.attribute if each.name in TYPES and each.type == AttributeProto.INT)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    for graph in _graphs(model):
        yield from graph.initializer
        yield from (sparse.values for sparse in graph.sparse_initializer)
    for attribute in (attribute for node in _nodes(model) for attribute in node.attribute):
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor.values
        yield from attribute.tensors


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in _graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graph of a model, and those of branches and loops."""
    waiting = [model.graph]
    waiting += [branch for function in model.functions for node in function.node for branch in _branches(node)]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [branch for node in graph.node for branch in _branches(node)]


def _branches(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
