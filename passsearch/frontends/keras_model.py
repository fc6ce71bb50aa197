"""Keras models as frozen TensorFlow graphs, one file that every TensorFlow reads."""

from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import EncodeError
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from passsearch.core import DeclaredInput
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, keep_bytes
from passsearch.frontends.request import Asked, first_line

# What Keras raises on a file or a call that it does not understand; TensorFlow's own come on top.
_REFUSALS = (OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, ImportError, tf.errors.OpError)


def from_path(path: Path, asked: Asked) -> ModelFile:
    """A ``.keras`` or ``.h5`` file.

    Raises:
        UserError: This Keras cannot load it, or as ``from_model``.
        EnvironmentFault: The folder cannot be written.
    """
    try:
        model = tf.keras.models.load_model(str(path), compile=False)
    except _REFUSALS as error:
        raise UserError(
            f"Cannot read `{asked.source}` as a Keras model ({first_line(error)}); "
            "save the whole model, or a SavedModel with model.export."
        ) from error
    return from_model(model, asked, name=path.stem)


def from_model(model: Any, asked: Asked, *, name: str | None = None) -> ModelFile:
    """Freeze a model as it infers, with its inputs bound.

    Raises:
        UserError: An input is unknown, does not fit or stays open, or the model cannot be traced or is over 2 GiB.
        EnvironmentFault: The folder cannot be written.
    """
    inputs = asked.settle(_declared(model, asked))
    specs = [tf.TensorSpec(kind.shape, kind.dtype, name=each) for each, kind in inputs.items()]
    try:
        data = _frozen(model, specs)
    except (*_REFUSALS, EncodeError) as error:
        raise UserError(
            f"Cannot freeze `{asked.source}` ({first_line(error)}); save it as a SavedModel and give its folder."
        ) from error
    name = name or model.name
    path = keep_bytes(asked.folder, data, name=name, suffix=".pb")
    return ModelFile(path, "tensorflow", name, asked.source, digest_files((path,)))


def _declared(model: Any, asked: Asked) -> list[DeclaredInput]:
    """What the model declares; a subclassed one declares nothing, and what the user gives is all there is."""
    if getattr(model, "inputs", None):
        return [DeclaredInput(each.name, tuple(each.shape), tf.as_dtype(each.dtype).name) for each in model.inputs]
    if not asked.inputs:
        raise UserError(
            f"`{asked.source}` does not declare its inputs; give each in order, for example: "
            "--input image:float32[1,224,224,3]"
        )
    return [DeclaredInput(name, kind.shape, kind.dtype) for name, kind in asked.inputs.items()]


def _frozen(model: Any, specs: list[Any]) -> bytes:
    """The graph with its weights as constants, the same bytes for the same model."""

    def infer(*tensors: Any) -> Any:
        return tf.nest.flatten(model(tensors[0] if len(tensors) == 1 else list(tensors), training=False))

    traced = tf.function(infer, autograph=False).get_concrete_function(*specs)
    graph = convert_variables_to_constants_v2(traced).graph.as_graph_def()
    return bytes(graph.SerializeToString(deterministic=True))
