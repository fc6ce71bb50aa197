"""Importer of TFLite files."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tflite
import tvm
from tvm import relay

from passsearch.core import DeclaredInput
from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.errors import UserError

_DTYPES = {number: name.lower() for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the main subgraph and its parameters.

    Raises:
        UserError: The file is not TFLite, or an input stays open.
    """
    data = source.path.read_bytes()
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        graph = model.Subgraphs(0)
        declared = [_declared(graph.Tensors(index)) for index in graph.InputsAsNumpy()]
    except (struct.error, AttributeError, IndexError, TypeError) as error:
        raise UserError(f"Cannot read `{source.path}` as TFLite ({error}); convert the network again.") from error
    types = source.bind_inputs(declared)
    shapes = {name: kind.shape for name, kind in types.items()}
    module, params = relay.frontend.from_tflite(model, shapes, {name: kind.dtype for name, kind in types.items()})
    return module, params


def _declared(tensor: Any) -> DeclaredInput:
    # The signature has -1 for an open dimension; the shape has the size of the trace instead.
    sizes = tensor.ShapeAsNumpy() if tensor.ShapeSignatureIsNone() else tensor.ShapeSignatureAsNumpy()
    shape = tuple(int(size) if size > 0 else None for size in (() if isinstance(sizes, int) else sizes))
    return DeclaredInput(tensor.Name().decode(), shape, _DTYPES[tensor.Type()])


def open_source(source: ModelSource) -> SourceNetwork:
    """Open a file as TFLite's interpreter runs it.

    Raises:
        UserError: TensorFlow is not installed.
    """
    return TfliteNetwork(source)


class TfliteNetwork(SourceNetwork):
    """A file as TFLite's interpreter runs it, by its reference kernels."""

    def __init__(self, source: ModelSource) -> None:
        try:
            # Imported here: the import of a file needs no TensorFlow.
            import tensorflow as tf
        except ImportError as error:
            raise UserError("TFLite's interpreter needs TensorFlow beside the compiler") from error
        resolver = tf.lite.experimental.OpResolverType.BUILTIN_REF
        self._interpreter = tf.lite.Interpreter(str(source.path), experimental_op_resolver_type=resolver)
        self.runtime = f"TensorFlow Lite {tf.__version__}"
        self.output_names = [each["name"] for each in self._interpreter.get_output_details()]

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference.

        Raises:
            UserError: TFLite cannot run the network.
        """
        interpreter = self._interpreter
        places = {each["name"]: each["index"] for each in interpreter.get_input_details()}
        try:
            for name, array in inputs.items():
                interpreter.resize_tensor_input(places[name], array.shape)
            interpreter.allocate_tensors()
            interpreter.reset_all_variables()
            for name, array in inputs.items():
                interpreter.set_tensor(places[name], array)
            interpreter.invoke()
        except (RuntimeError, ValueError, KeyError) as error:
            raise UserError(f"{self.runtime} cannot run it ({str(error).strip().splitlines()[-1]})") from error
        return [np.array(interpreter.get_tensor(each["index"])) for each in interpreter.get_output_details()]
