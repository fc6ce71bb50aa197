"""Front end for Keras models: they become frozen TensorFlow graphs, a single file that every TensorFlow reads."""

from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import EncodeError
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from passsearch.core import DeclaredInput
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, save_bytes
from passsearch.frontends.request import ModelRequest, first_line

# Errors that Keras and TensorFlow raise for a file or a model that they cannot process.
_ERRORS = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError, tf.errors.OpError)


def from_path(path: Path, request: ModelRequest) -> ModelFile:
    """Load a ``.keras`` or ``.h5`` file and freeze its model.

    Raises:
        UserError: This Keras cannot load the file, or ``from_model`` refuses the model.
        EnvironmentFault: The folder cannot be written.
    """
    try:
        model = tf.keras.models.load_model(str(path), compile=False, safe_mode=not request.trust)
    except _ERRORS as error:
        raise UserError(
            f"Cannot read `{request.source}` as a Keras model ({first_line(error)}); "
            "save the whole model, or a SavedModel with model.export."
        ) from error
    return from_model(model, request, name=path.stem)


def from_model(model: Any, request: ModelRequest, *, name: str | None = None) -> ModelFile:
    """Freeze a model in inference mode, with its inputs bound.

    Raises:
        UserError: An input is unknown, does not fit or stays open, or the model cannot be traced or is over 2 GiB.
        EnvironmentFault: The folder cannot be written.
    """
    inputs = request.bind_inputs(_declared_inputs(model, request))
    specs = [tf.TensorSpec(kind.shape, kind.dtype, name=input_name) for input_name, kind in inputs.items()]
    try:
        data = _freeze(model, specs)
    except (*_ERRORS, EncodeError) as error:
        raise UserError(
            f"Cannot freeze `{request.source}` ({first_line(error)}); save it as a SavedModel and give its folder."
        ) from error
    name = name or model.name
    path = save_bytes(request.folder, data, name=name, suffix=".pb")
    return ModelFile(path, "tensorflow", name, request.source, digest_files((path,)))


def _declared_inputs(model: Any, request: ModelRequest) -> list[DeclaredInput]:
    """Return the inputs that the model declares, or those of the user for a subclassed model, which declares none."""
    if getattr(model, "inputs", None):
        return [
            DeclaredInput(tensor.name, tuple(tensor.shape), tf.as_dtype(tensor.dtype).name) for tensor in model.inputs
        ]
    inputs = request.complete_inputs(f"`{request.source}`")
    return [DeclaredInput(name, kind.shape, kind.dtype) for name, kind in inputs.items()]


def _freeze(model: Any, specs: list[Any]) -> bytes:
    """Return the graph with its weights as constants; the same model always gives the same bytes."""

    def infer(*tensors: Any) -> Any:
        # Outputs may be nested by name; a frozen graph can only list them.
        return tf.nest.flatten(model(tensors[0] if len(tensors) == 1 else list(tensors), training=False))

    function = tf.function(infer, autograph=False).get_concrete_function(*specs)
    graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
    return bytes(graph.SerializeToString(deterministic=True))
