"""TensorFlow's SavedModel folders and frozen graphs."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tvm
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tvm import relay

from passsearch.core import DeclaredInput, TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError

SIGNATURE = "serving_default"
NO_OUTPUT = frozenset({"Assert", "Const", "NoOp", "Placeholder"})
"""Operators that answer nothing, though nothing may read them."""


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """The graph that infers, variables frozen.

    Raises:
        UserError: It is not TensorFlow's, has no signature to serve, or an input stays open.
    """
    graph, types, outputs = (_saved_model if source.path.is_dir() else _frozen)(source)
    # "NHWC" keeps convolutions as TensorFlow has them; other layouts fail in some builds of TVM.
    shapes = {name: kind.shape for name, kind in types.items()}
    module, params = relay.frontend.from_tensorflow(graph, layout="NHWC", shape=shapes, outputs=list(outputs))
    return module, params


def _saved_model(source: ModelSource) -> tuple[Any, Mapping[str, TensorType], Sequence[str]]:
    signature = _signature(source.path)
    specs = signature.structured_input_signature[1]
    types = source.settle([_declared(name, spec.shape, dtype=spec.dtype) for name, spec in specs.items()])
    tensors = {name: tf.TensorSpec(kind.shape, kind.dtype, name=name) for name, kind in types.items()}
    function = tf.function(lambda **given: signature(**given)).get_concrete_function(**tensors)
    frozen = convert_variables_to_constants_v2(function)
    names = [_node(tensor) for tensor in frozen.inputs]
    bound = dict(zip(names, (types[name] for name in sorted(types)), strict=True))
    return frozen.graph.as_graph_def(), bound, [_node(tensor) for tensor in frozen.outputs]


def _signature(path: Path) -> Any:
    loaded = tf.saved_model.load(str(path))
    names = sorted(loaded.signatures)
    name = SIGNATURE if SIGNATURE in names else names[0] if len(names) == 1 else None
    if name is None:
        found = ", ".join(names) or "none"
        raise UserError(f"`{path}` needs a signature `{SIGNATURE}` or a single one; it has: {found}. Save it with one.")
    signature = loaded.signatures[name]
    signature.keep = loaded  # its variables are gone with the object that was loaded
    return signature


def _frozen(source: ModelSource) -> tuple[Any, Mapping[str, TensorType], Sequence[str]]:
    from google.protobuf.message import DecodeError

    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(source.path.read_bytes())
    except DecodeError as error:
        raise UserError(f"Cannot read `{source.path}` as a TensorFlow graph ({error}); freeze it again.") from error
    held = [node.name for node in graph.node if node.op in ("VariableV2", "VarHandleOp")]
    if held:
        raise UserError(f"`{source.path}` has variables (`{held[0]}`), whose values are elsewhere; freeze the graph.")
    read_by_others = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
    # A Keras loop leaves placeholders that nothing reads.
    inputs = [_placeholder(node) for node in graph.node if node.op == "Placeholder" and node.name in read_by_others]
    return graph, source.settle(inputs), list(_outputs(graph))


def _outputs(graph: Any) -> Iterator[str]:
    """All outputs of the operators that nothing reads; TVM takes the first alone where it is given the bare name."""
    with tf.Graph().as_default() as whole:
        tf.import_graph_def(graph, name="")
    for node in whole.get_operations():
        if node.type not in NO_OUTPUT and not any(tensor.consumers() for tensor in node.outputs):
            yield from ([node.name] if len(node.outputs) == 1 else [tensor.name for tensor in node.outputs])


def _placeholder(node: Any) -> DeclaredInput:
    shape = tf.TensorShape(node.attr["shape"].shape if "shape" in node.attr else None)
    return _declared(node.name, shape, dtype=tf.dtypes.as_dtype(node.attr["dtype"].type))


def _declared(name: str, shape: Any, *, dtype: Any) -> DeclaredInput:
    return DeclaredInput(name, None if shape.rank is None else tuple(shape.as_list()), dtype.name)


def _node(tensor: Any) -> str:
    return str(tensor.name).partition(":")[0]
