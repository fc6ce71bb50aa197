"""Checks of the conversion of each ONNX node: all that the node holds is read, and all that it makes is produced.

TVM's converters leave out attributes, inputs and outputs that they do not know, without a word. Here the attributes and
inputs that a converter gets remember what was read. After the conversion of a node, the network is refused for an
attribute with another value than ONNX's default that nothing read, for an input that nothing read, and for an output
that the network uses and that has another type than ONNX infers. Needs no TVM.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from passsearch.core import TensorType

NEUTRAL: Mapping[str, Callable[[Sequence[Any]], bool]] = {
    "dilations": lambda values: set(values) <= {1},
    "strides": lambda values: set(values) <= {1},
    "pads": lambda values: set(values) <= {0},
    "output_padding": lambda values: set(values) <= {0},
}
"""Whether values mean the same as none, for attributes whose default depends on the rank."""

UNIMPORTANT = frozenset({"consumed_inputs", "is_test", "kernel_shape", "seed", "hidden_size"})
"""Attributes that add nothing in inference: hints, the state of random numbers, and sizes that weights have too.

Operators for which one of these matters, such as pooling with ``kernel_shape``, do not convert without it.
"""

INDIFFERENT = frozenset(
    {("Cast", "saturate"), ("CastLike", "saturate"), ("QuantizeLinear", "saturate"), ("TopK", "sorted")}
)
"""Attributes by operator that change nothing: saturation is for types that importers refuse, and any order will do."""

UNUSED_WITHOUT: Mapping[tuple[str, str], int] = {
    ("BatchNormalization", "momentum"): 1,
    ("MaxPool", "storage_order"): 1,
}
"""Attributes that matter only to an output, by operator and name: the number of that output."""

CONTRIBUTED = frozenset({"Attention", "BiasGelu", "EmbedLayerNormalization", "FastGelu", "SkipLayerNormalization"})
"""Operators of the domain ``com.microsoft`` that TVM converts without a look at the domain of the node."""

DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft", "org.pytorch.aten"})
"""Domains of which TVM has operators; those of other domains may have the same names by accident."""

SEQUENCES = frozenset(
    {"ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SplitToSequence"}
    | {f"Sequence{kind}" for kind in ("At", "Construct", "Empty", "Erase", "Insert", "Length", "Map")}
)
"""Operators on lists of tensors, whose outputs are not compared."""

ROUNDED = frozenset({"AveragePool", "LpPool", "MaxPool", "Resize", "Upsample"})
"""Operators whose sizes are rounded; releases of ONNX infer one window too many, or one element too few."""

NUMBERS = {"value_int": "int64", "value_ints": "int64", "value_float": "float32", "value_floats": "float32"}
"""Types by attribute of the numbers and lists that a Constant may have in place of a tensor."""

PLAIN: Mapping[str, str] = {
    r"^(Only constant (axes|split)|Dynamic (pads|Split|size))|must be a constant$|with non-constant axis"
    r"|to be Shape\. However|'Var' object has no attribute": (
        "a shape, size or axis that is known at run time only is not supported; make it a constant"
    ),
    r"has no len\(\)$": "a list of tensors whose length is known at run time only is not supported",
}
"""What messages of TVM's converters mean to a user, by pattern."""

LARGEST_CONSTANT = 1 << 10
"""Most elements of a weight that the inference of types gets to read; those of shapes and axes are few."""


@dataclass(frozen=True)
class Output:
    """One output of a node that the network uses.

    Attributes:
        position: Its number among the outputs of the node.
        name: Its name in the graph.
        type: The type that ONNX infers, ``None`` if it infers none.
    """

    position: int
    name: str
    type: TensorType | None


@dataclass(frozen=True)
class Node:
    """One node of an ONNX graph, as far as its conversion is checked.

    Attributes:
        kind: The operator.
        label: The node in messages.
        domain: The domain of the operator, empty for ONNX's own.
        defaults: ONNX's default by attribute, for those that have one.
        outputs: The outputs that the network uses.
    """

    kind: str
    label: str
    domain: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[Output] = ()


class Attributes(dict[str, Any]):
    """The attributes of one node, which remember what was read. Asking whether there is one is not reading it."""

    def __init__(self, values: Mapping[str, Any], read: set[str] | None = None) -> None:
        super().__init__(values)
        self.read: set[str] = set() if read is None else read

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        # Python copies a dictionary with an iterator of its own by reading its items, and so this copy reads them all.
        return iter(self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, and remember that it was read."""
        self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove and return a value, and remember that it was read."""
        self.read.add(name)
        return super().pop(name, *default)

    def items(self) -> Any:
        """Return names and values, all of which are read by that."""
        self.read.update(self.keys())
        return super().items()

    def values(self) -> Any:
        """Return the values, all of which are read by that."""
        self.read.update(self.keys())
        return super().values()

    def copy(self) -> Attributes:
        """Return a copy whose reading counts as reading this."""
        return replaced(self)


class Inputs(list[Any]):
    """The inputs of one node, which remember what was read; ``None`` stands for each that is left out."""

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.read: set[int] = set()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            end = len(self) if index.stop is None else index.stop
            return [self[position] for position in list(range(max(end, len(self))))[index]]
        position = index + len(self) if index < 0 else index
        self.read.add(position)
        return super().__getitem__(position) if position < len(self) else None

    def __iter__(self) -> Iterator[Any]:
        for position in range(len(self)):
            yield self[position]

    def __add__(self, others: Any) -> list[Any]:
        # A list adds its elements without its iterator.
        return [*self, *others]


def replaced(attributes: Mapping[str, Any], **changes: Any) -> Attributes:
    """Return attributes with some values replaced, and those whose new value is ``None`` removed.

    What is replaced counts as read; reading another one from the copy counts as reading it from the original.
    """
    read = attributes.read if isinstance(attributes, Attributes) else set()
    read.update(changes)
    kept: dict[str, Any] = {}
    dict.update(kept, dict.items(attributes) if isinstance(attributes, dict) else attributes)
    values = {**kept, **changes}
    return Attributes({name: value for name, value in values.items() if value is not None}, read)


def checked(
    convert: Callable[..., Any],
    *,
    nodes: Mapping[str, Node],
    types_of: Callable[[Any], Sequence[TensorType | None]],
    errors: tuple[type[Exception], ...],
) -> Callable[..., Any]:
    """Return an importer's method that converts one node and refuses what was not converted whole.

    Args:
        convert: The method; it gets the importer, the operator, the inputs, the attributes and the operator set.
        nodes: The nodes of the graph by ``key``.
        types_of: Returns the types of what the method returns, ``None`` for one that is not known.
        errors: The errors that the method raises for an operator that it refuses. They begin with operator and node.
    """

    def convert_operator(importer: object, kind: str, inputs: Any, attributes: Any, *rest: Any) -> Any:
        node = nodes.get(attributes.get("tvm_custom", {}).get("name", ""), Node(kind, kind))
        held = Attributes({name: value for name, value in attributes.items() if (kind, name) not in INDIFFERENT})
        given = Inputs(inputs)
        try:
            _refuse_other_domain(node)
            converted = convert(importer, kind, given, held, *rest)
            _refuse_unread(node, attributes, held.read)
            _refuse_unread_inputs(inputs, given.read)
            _refuse_other_outputs(node, types_of(converted))
        except errors as error:
            raise ValueError(f"Operator {node.label}: {_reason(error)}") from error
        return converted

    return convert_operator


def _reason(error: Exception) -> str:
    text = str(error).strip()
    for pattern, plain in PLAIN.items():
        if re.search(pattern, text):
            return plain
    is_fault = isinstance(error, (AttributeError, LookupError, TypeError)) or text.startswith("Check failed")
    if is_fault or not text:
        # A fault of the converter itself, whose message alone would say nothing.
        return f"this form of the operator is not supported ({': '.join(filter(None, (type(error).__name__, text)))})"
    return text


def name_nodes(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> dict[str, Node]:
    """Give each node of a model a name of its own, and return the nodes by it.

    Args:
        model: A model; nodes without a name get that of their first output, as do nodes that share one.
        inputs: The types of its inputs.
    """
    types = _infer_types(model, inputs)
    sets = {each.domain: each.version for each in model.opset_import}
    used = {name for graph in _graphs(model.graph) for node in graph.node for name in node.input}
    used |= {value.name for graph in _graphs(model.graph) for value in graph.output}
    nodes: dict[str, Node] = {}
    for graph in _graphs(model.graph):
        for proto in graph.node:
            name = proto.name or next(filter(None, proto.output), "")
            label = f"{proto.op_type} `{name}`"
            proto.name = name if name and name not in nodes else f"{name}#{len(nodes)}"
            outputs = [
                Output(position, output, types.get(output))
                for position, output in enumerate(proto.output)
                if output in used and proto.op_type not in SEQUENCES
            ]
            nodes[proto.name] = Node(proto.op_type, label, proto.domain, _defaults(proto, sets), outputs)
    return nodes


def write_tensors(model: onnx.ModelProto) -> None:
    """Replace the numbers and lists of Constants by tensors, the only form that TVM's importers read."""
    for node in (node for graph in _graphs(model.graph) for node in graph.node if node.op_type == "Constant"):
        # ONNX allows one attribute; what has two is left to the check of what was read.
        (attribute, *others) = node.attribute
        if attribute.name in NUMBERS and not others:
            values = np.array(helper.get_attribute_value(attribute), NUMBERS[attribute.name])
            attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(values)))


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("g"):
            yield from _graphs(attribute.g)


def _defaults(proto: onnx.NodeProto, sets: Mapping[str, int]) -> dict[str, Any]:
    """Return the defaults of a node's attributes, as TVM's importers write values."""
    try:
        schema = onnx.defs.get_schema(proto.op_type, sets.get(proto.domain, 1), proto.domain)
    except onnx.defs.SchemaError:
        return {}
    defaults = ((name, attribute.default_value) for name, attribute in schema.attributes.items())
    return {
        name: helper.get_attribute_value(value) for name, value in defaults if value.type != AttributeProto.UNDEFINED
    }


def _infer_types(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the types that ONNX infers for the values of a graph, from its inputs and small constants only.

    Sizes that the file declares elsewhere are not taken for true: networks with wrong ones run everywhere else.
    """
    outline = _outline(model, inputs)
    try:
        inferred = onnx.shape_inference.infer_shapes(outline).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    kinds = {value.name: value.type for value in (*inferred.value_info, *inferred.output)}
    types = {name: _tensor_type(kind) for name, kind in kinds.items()}
    return {name: kind for name, kind in types.items() if kind is not None}


def _outline(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> onnx.ModelProto:
    """Return a model without the values of large weights and without declared types, its inputs bound."""
    outline = onnx.ModelProto()
    outline.ir_version = model.ir_version
    outline.opset_import.extend(model.opset_import)
    outline.functions.extend(model.functions)
    graph = outline.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    for value in model.graph.input:
        copy = graph.input.add()
        copy.CopyFrom(value)
        if value.name in inputs:
            del copy.type.tensor_type.shape.dim[:]
            for size in inputs[value.name].shape:
                copy.type.tensor_type.shape.dim.add(**({} if size is None else {"dim_value": size}))
    # Before IR version 4 a weight had to be listed among the inputs as well.
    listed = {value.name for value in graph.input}
    for weight in model.graph.initializer:
        if math.prod(weight.dims) <= LARGEST_CONSTANT:
            graph.initializer.append(weight)
        elif weight.name not in listed:
            graph.input.append(helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in model.graph.output)
    return outline


def _tensor_type(kind: onnx.TypeProto) -> TensorType | None:
    tensor = kind.tensor_type
    if not kind.HasField("tensor_type") or not tensor.HasField("shape") or not tensor.elem_type:
        return None
    shape = tuple(size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim)
    name = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    return TensorType(shape, {"float": "float32", "double": "float64"}.get(name, name))


def _refuse_other_domain(node: Node) -> None:
    if node.domain not in DOMAINS:
        raise NotImplementedError(f"the domain {node.domain} is not supported")
    if node.kind in CONTRIBUTED and node.domain in ("", "ai.onnx"):
        raise NotImplementedError("ONNX's own operator of this name is not supported, only that of com.microsoft")


def _refuse_unread(node: Node, attributes: Mapping[str, Any], read: set[str]) -> None:
    for name, value in attributes.items():
        is_unimportant = name in UNIMPORTANT or (node.kind, name) in INDIFFERENT
        if name == "tvm_custom" or name in read or is_unimportant or _is_default(node, name, value):
            continue
        position = UNUSED_WITHOUT.get((node.kind, name))
        if position is None or any(output.position == position for output in node.outputs):
            raise NotImplementedError(f"the attribute {name} is not supported with the value {_text(value)}")


def _is_default(node: Node, name: str, value: Any) -> bool:
    if name in NEUTRAL and isinstance(value, (list, tuple)):
        return NEUTRAL[name](value)
    default = node.defaults.get(name)
    if isinstance(default, list):
        return list(value) == default
    return default is not None and bool(value == default)


def _text(value: Any) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return " ".join(text.split())[:60]


def _refuse_unread_inputs(inputs: Sequence[Any], read: set[int]) -> None:
    for position, value in enumerate(list(inputs)):
        if value is not None and position not in read:
            raise NotImplementedError(f"input {position + 1} is not supported; leave it out")


def _refuse_other_outputs(node: Node, types: Sequence[TensorType | None]) -> None:
    for output in node.outputs:
        if output.position >= len(types):
            raise NotImplementedError(f"the output `{output.name}` is not supported; leave it out")
        actual, defined = types[output.position], output.type
        if actual is not None and defined is not None and not _is_same(node, actual, defined):
            raise NotImplementedError(
                f"`{output.name}` would be {_written(actual)}, and ONNX defines {_written(defined)}"
            )


def _is_same(node: Node, actual: TensorType, defined: TensorType) -> bool:
    most = 1 if node.kind in ROUNDED else 0
    pairs = zip(actual.shape, defined.shape, strict=False)
    return (
        actual.dtype == defined.dtype
        and len(actual.shape) == len(defined.shape)
        and all(mine is None or other is None or abs(mine - other) <= most for mine, other in pairs)
    )


def _written(kind: TensorType) -> str:
    return f"{kind.dtype}[{', '.join('?' if size is None else str(size) for size in kind.shape)}]"
