"""transformers' models, by folder or configuration too; what they are run on is derived from the configuration."""

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError

from passsearch.core import DeclaredInput, Dimension, TensorType
from passsearch.errors import UserError
from passsearch.frontends import torch_module
from passsearch.frontends.model_file import ModelFile
from passsearch.frontends.request import Asked, first_line

SEED = 0
"""Of the weights that no file gives."""

WEIGHTS = ("*.safetensors", "*.bin", "*.h5", "*.msgpack")
EXAMPLES = {"pixel_values": "float32[1,3,224,224]", "input_ids": "int64[1,384]"}

# What transformers raises on a folder that it cannot make a model of.
_REFUSALS = (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError, ImportError, SafetensorError)


def from_folder(path: Path, asked: Asked) -> ModelFile:
    """A folder with ``config.json``, with its weights if it holds any, else with random ones of a fixed seed.

    Raises:
        UserError: transformers cannot make a model of it, or as ``from_model``.
        EnvironmentFault: The folder for files cannot be written.
    """
    try:
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        model = _loaded(path, config) if any(any(path.glob(each)) for each in WEIGHTS) else _drawn(config)
    except _REFUSALS as error:
        raise UserError(
            f"Cannot make a transformers model of `{asked.source}` ({first_line(error)}); "
            "write it with save_pretrained, or export ONNX."
        ) from error
    return from_model(model, asked)


def from_config(config: Any, asked: Asked) -> ModelFile:
    """A configuration, with random weights of a fixed seed.

    Raises:
        UserError: transformers cannot make a model of it, or as ``from_model``.
        EnvironmentFault: The folder for files cannot be written.
    """
    try:
        model = _drawn(config)
    except _REFUSALS as error:
        raise UserError(
            f"Cannot make a model of `{asked.source}` ({first_line(error)}); hand over the model."
        ) from error
    return from_model(model, asked)


def from_model(model: Any, asked: Asked) -> ModelFile:
    """A model, run on inputs derived from its configuration unless examples are given.

    Raises:
        UserError: The configuration leaves sizes open, or the model cannot be traced with these inputs.
        EnvironmentFault: The folder cannot be written.
    """
    if asked.example_inputs is None:
        asked = replace(asked, example_inputs=_examples(model, asked))
    return torch_module.from_module(model, asked)


def _architecture(config: Any) -> Any:
    """The class that the configuration names, if it names one."""
    named = (getattr(config, "architectures", None) or ["AutoModel"])[0]
    kind = getattr(transformers, named, None)
    if kind is None:
        raise ValueError(f"transformers {transformers.__version__} has no `{named}`")
    return kind


def _loaded(path: Path, config: Any) -> Any:
    with _seeded():
        return _architecture(config).from_pretrained(path, local_files_only=True, attn_implementation="eager")


def _drawn(config: Any) -> Any:
    kind, config = _architecture(config), copy.deepcopy(config)
    # Fused attention becomes the same operators, in more of them.
    config._attn_implementation = "eager"
    with _seeded():
        return kind.from_config(config) if kind is transformers.AutoModel else kind(config)


@contextmanager
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        yield


def _examples(model: Any, asked: Asked) -> dict[str, torch.Tensor]:
    declared = _declared(model, asked.inputs)
    main = declared[0]
    if main.name not in asked.inputs and not (main.shape and all(isinstance(size, int) for size in main.shape[1:])):
        example = EXAMPLES.get(main.name, f"{main.dtype}[1,16000]")
        raise UserError(
            f"`{asked.source}` leaves the sizes of `{main}` open; give them, for example: --input {main.name}:{example}"
        )
    if main.name not in asked.inputs:
        asked = replace(asked, batch=asked.batch or 1)
    return {name: _example(name, kind) for name, kind in asked.settle(declared).items()}


def _declared(model: Any, given: Mapping[str, TensorType]) -> list[DeclaredInput]:
    """What the model is run on, its main input first; beyond that what the user gives of its arguments."""
    main, config = model.main_input_name, model.config
    arguments = inspect.signature(model.forward).parameters
    shapes: dict[str, tuple[Dimension, ...] | None] = {main: None}
    if main == "pixel_values":
        shapes = {main: ("batch", getattr(config, "num_channels", None), *_image_size(config))}
    elif main == "input_ids":
        names = ["input_ids", "attention_mask"]
        # Some take the argument and were never trained with it: those have no vocabulary of types.
        names += ["token_type_ids"] if hasattr(config, "type_vocab_size") else []
        shapes = {name: ("batch", "sequence") for name in names if name in arguments}
    # A mask may be given for every head; of what else is given, the user knows the shape.
    free = [name for name in given if name in arguments and len(given[name].shape) != len(shapes.get(name) or ())]
    shapes |= dict.fromkeys(free)
    usual = {"pixel_values": str(model.dtype).removeprefix("torch."), "input_ids": "int64"}.get(main, "float32")
    dtype = given[main].dtype if main in given else usual
    return [DeclaredInput(name, shape, given[name].dtype if name in given else dtype) for name, shape in shapes.items()]


def _image_size(config: Any) -> tuple[Dimension, Dimension]:
    size = getattr(config, "image_size", None)
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return height, width


def _example(name: str, kind: TensorType) -> torch.Tensor:
    """Ones for a mask, that nothing is hidden; zeros are a pixel and a token of every vocabulary."""
    fill: Any = torch.ones if name.endswith("mask") else torch.zeros
    tensor: torch.Tensor = fill(kind.shape, dtype=getattr(torch, kind.dtype))
    return tensor
