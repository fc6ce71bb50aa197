"""Importer of TensorFlow's SavedModel folders and frozen graphs.

TVM 0.16's converter of ``DepthwiseConv2dNative`` fails on images whose channels come last; they have one of their own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf
import tvm
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tvm import relay
from tvm.relay.frontend import tensorflow_ops
from tvm.relay.frontend.common import infer_shape

from passsearch.core import DeclaredInput, TensorType
from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.errors import UserError

DEPTHWISE = "DepthwiseConv2dNative"
SIGNATURE = "serving_default"
NO_OUTPUT = frozenset({"Assert", "Const", "NoOp", "Placeholder"})
"""Operators that are no outputs of the graph although no other operator reads them."""


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the inference graph with its variables frozen, and its parameters.

    Raises:
        UserError: The file is not TensorFlow's, has no serving signature, or an input stays open.
    """
    graph, types, outputs = (_saved_model if source.path.is_dir() else _frozen)(source)
    # "NHWC" is the layout that TensorFlow's convolutions have; other values fail in some builds of TVM.
    shapes = {name: kind.shape for name, kind in types.items()}
    with patch.dict(tensorflow_ops._convert_map, {DEPTHWISE: _depthwise(tensorflow_ops._convert_map[DEPTHWISE])}):
        module, params = relay.frontend.from_tensorflow(graph, layout="NHWC", shape=shapes, outputs=list(outputs))
    return module, params


def _depthwise(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return a converter of depthwise convolutions with channels last; the others are left to TVM."""

    def converter(inputs: Sequence[Any], attr: Mapping[str, Any], params: Any, module: Any) -> Any:
        if attr["data_format"] != b"NHWC":
            return convert(inputs, attr, params, module)
        data, weight = inputs
        sizes = infer_shape(data, module)[1:3]
        height, width, channels, multiplier = (int(size) for size in infer_shape(weight, module))
        strides, dilations = attr["strides"][1:3], attr.get("dilations", (1, 1, 1, 1))[1:3]
        extents = [(length - 1) * by + 1 for length, by in zip((height, width), dilations, strict=True)]
        pads = [_same_pads(*each) for each in zip(sizes, extents, strides, strict=True)]
        if attr["padding"] == b"EXPLICIT":
            pads = [tuple(attr["explicit_paddings"][2 * axis : 2 * axis + 2]) for axis in (1, 2)]
        elif attr["padding"] == b"VALID":
            pads = [(0, 0), (0, 0)]
        return relay.nn.conv2d(
            data,
            weight,
            strides=strides,
            padding=[pads[axis][side] for side in (0, 1) for axis in (0, 1)],
            dilation=dilations,
            groups=channels,
            channels=channels * multiplier,
            kernel_size=(height, width),
            data_layout="NHWC",
            kernel_layout="HWOI",
        )

    return converter


def _same_pads(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Return what TensorFlow's SAME padding puts before and after an axis: the odd one comes after."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def _saved_model(source: ModelSource) -> tuple[Any, Mapping[str, TensorType], Sequence[str]]:
    signature = _signature(source.path)
    specs = signature.structured_input_signature[1]
    types = source.bind_inputs([_declared(name, spec.shape, dtype=spec.dtype) for name, spec in specs.items()])
    tensors = {name: tf.TensorSpec(kind.shape, kind.dtype, name=name) for name, kind in types.items()}
    function = tf.function(lambda **inputs: signature(**inputs)).get_concrete_function(**tensors)
    frozen = convert_variables_to_constants_v2(function)
    names = [_node(tensor) for tensor in frozen.inputs]
    bound = dict(zip(names, (types[name] for name in sorted(types)), strict=True))
    return frozen.graph.as_graph_def(), bound, [_node(tensor) for tensor in frozen.outputs]


def _signature(path: Path) -> Any:
    loaded = tf.saved_model.load(str(path))
    names = sorted(loaded.signatures)
    name = SIGNATURE if SIGNATURE in names else names[0] if len(names) == 1 else None
    if name is None:
        present = ", ".join(names) or "none"
        raise UserError(
            f"`{path}` needs a signature `{SIGNATURE}` or a single one; it has: {present}. Save it with one."
        )
    signature = loaded.signatures[name]
    signature.keep = loaded  # the variables are deleted with the object that was loaded
    return signature


def _frozen(source: ModelSource) -> tuple[Any, Mapping[str, TensorType], Sequence[str]]:
    from google.protobuf.message import DecodeError

    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(source.path.read_bytes())
    except DecodeError as error:
        raise UserError(f"Cannot read `{source.path}` as a TensorFlow graph ({error}); freeze it again.") from error
    variables = [node.name for node in graph.node if node.op in ("VariableV2", "VarHandleOp")]
    if variables:
        raise UserError(
            f"`{source.path}` has variables (`{variables[0]}`), whose values are elsewhere; freeze the graph."
        )
    used = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
    # A Keras loop leaves placeholders that nothing reads; they are no inputs.
    inputs = [_placeholder(node) for node in graph.node if node.op == "Placeholder" and node.name in used]
    return graph, source.bind_inputs(inputs), list(_outputs(graph))


def _outputs(graph: Any) -> Iterator[str]:
    """Yield the outputs of all operators that no other operator reads."""
    with tf.Graph().as_default() as whole:
        tf.import_graph_def(graph, name="")
    for node in whole.get_operations():
        if node.type not in NO_OUTPUT and not any(tensor.consumers() for tensor in node.outputs):
            # A bare operator name means its first output only to TVM.
            yield from ([node.name] if len(node.outputs) == 1 else [tensor.name for tensor in node.outputs])


def _placeholder(node: Any) -> DeclaredInput:
    shape = tf.TensorShape(node.attr["shape"].shape if "shape" in node.attr else None)
    return _declared(node.name, shape, dtype=tf.dtypes.as_dtype(node.attr["dtype"].type))


def _declared(name: str, shape: Any, *, dtype: Any) -> DeclaredInput:
    return DeclaredInput(name, None if shape.rank is None else tuple(shape.as_list()), dtype.name)


def _node(tensor: Any) -> str:
    return str(tensor.name).partition(":")[0]


def open_source(source: ModelSource) -> SourceNetwork:
    """Open a SavedModel or a frozen graph as TensorFlow runs it.

    Raises:
        UserError: The file is not TensorFlow's, has no serving signature, or an input stays open.
    """
    return TensorflowNetwork(source)


class TensorflowNetwork(SourceNetwork):
    """The frozen inference graph as TensorFlow runs it, without its own rewritings."""

    def __init__(self, source: ModelSource) -> None:
        graph, self._types, outputs = (_saved_model if source.path.is_dir() else _frozen)(source)
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.import_graph_def(graph, name="")
        self._outputs = [name if ":" in name else f"{name}:0" for name in outputs]
        self.runtime = f"TensorFlow {tf.__version__}"
        self.output_names = list(outputs)
        config = tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        self._session = tf.compat.v1.Session(graph=self._graph, config=config)

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference.

        Raises:
            UserError: TensorFlow cannot run the network.
        """
        try:
            arrays: Sequence[Array] = self._session.run(
                self._outputs, {f"{name}:0": array for name, array in inputs.items()}
            )
        except (tf.errors.OpError, ValueError, TypeError, KeyError) as error:
            raise UserError(f"{self.runtime} cannot run it ({str(error).strip().splitlines()[0]})") from error
        return [np.asarray(array) for array in arrays]
