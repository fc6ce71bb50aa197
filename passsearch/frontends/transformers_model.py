"""Front end for models of transformers; their configuration says which inputs they take."""

import copy
import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from safetensors import SafetensorError
from transformers import masking_utils

from passsearch.core import DeclaredInput, Dimension, TensorType
from passsearch.errors import UserError
from passsearch.frontends import torch_module
from passsearch.frontends.model_file import ModelFile
from passsearch.frontends.request import ModelRequest, first_line

SEED = 0
"""Seed of random weights, for networks without a weight file."""

WEIGHTS = ("*.safetensors", "*.bin", "*.h5", "*.msgpack")
EXAMPLES = {"pixel_values": "float32[1,3,224,224]", "input_ids": "int64[1,384]"}

_log = logging.getLogger(__name__)

# Errors that transformers raises for a folder or configuration from which it cannot make a model.
_ERRORS = (OSError, ValueError, LookupError, RuntimeError, TypeError, AttributeError, ImportError, SafetensorError)


def from_folder(path: Path, request: ModelRequest) -> ModelFile:
    """Export the model of a folder with ``config.json``; without a weight file, its weights are random.

    Raises:
        UserError: transformers cannot make a model of the folder, or ``from_model`` refuses it.
        EnvironmentFault: The folder for files cannot be written.
    """
    try:
        # A folder is data: code inside it never runs, and nothing is downloaded.
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        model = _load(path, config) if any(any(path.glob(pattern)) for pattern in WEIGHTS) else _initialize(config)
    except _ERRORS as error:
        raise UserError(
            f"Cannot make a transformers model of `{request.source}` ({first_line(error)}); "
            "write it with save_pretrained, or export ONNX."
        ) from error
    return from_model(model, request)


def from_config(config: Any, request: ModelRequest) -> ModelFile:
    """Export the model of a configuration with random weights.

    Raises:
        UserError: transformers cannot make a model of the configuration, or ``from_model`` refuses it.
        EnvironmentFault: The folder for files cannot be written.
    """
    try:
        model = _initialize(config)
    except _ERRORS as error:
        raise UserError(
            f"Cannot make a model of `{request.source}` ({first_line(error)}); give the model itself."
        ) from error
    return from_model(model, request)


def from_model(model: Any, request: ModelRequest) -> ModelFile:
    """Export a model; unless the user gives example inputs, they are made from the model's configuration.

    Raises:
        UserError: The configuration leaves sizes open, or the model cannot be traced with these inputs.
        EnvironmentFault: The folder cannot be written.
    """
    if request.example_inputs is None:
        request = replace(request, example_inputs=_example_inputs(model, request))
    return torch_module.from_module(model, request, prepare=lambda: _traceable(model))


@contextmanager
def _traceable(model: Any) -> Iterator[None]:
    """Ask a model for eager attention, no cache, and masks that can be traced; restore its settings afterwards.

    A fused attention is exported as the same computation in more operators. A cache is an output of Python objects.
    """
    configs = [part.config for part in model.modules() if isinstance(part, transformers.PreTrainedModel)]
    before = [(config, dict(vars(config))) for config in configs]
    try:
        model.set_attn_implementation("eager")
        for config in configs:
            if hasattr(config, "use_cache"):
                config.use_cache = False
        with _broadcast_masks():
            yield
    finally:
        for config, settings in before:
            vars(config).clear()
            vars(config).update(settings)


@contextmanager
def _broadcast_masks() -> Iterator[None]:
    """Let transformers build its masks by broadcasting indices, because no exporter can trace ``torch.vmap``."""
    replacements = {
        "_vmap_for_bhqkv": _broadcast,
        "TransformGetItemToIndex": nullcontext,
        "find_packed_sequence_indices": _packed_sequences,
    }
    # transformers 5 broadcasts by itself, so it lacks some of these names; 4 has no setting for it.
    present = {name: function for name, function in replacements.items() if hasattr(masking_utils, name)}
    with patch.dict(vars(masking_utils), present):
        yield


def _packed_sequences(position_ids: torch.Tensor) -> torch.Tensor:
    """Number the sequences that are packed into each row; ``torch.diff``, which transformers uses, has no ONNX form."""
    before = torch.cat([position_ids[:, :1] - 1, position_ids[:, :-1]], -1)
    return (position_ids - before != 1).cumsum(-1)


def _broadcast(rule: Callable[..., torch.Tensor], bh_indices: bool = True) -> Callable[..., torch.Tensor]:
    """Return a function of the indices of batch, heads, queries and keys that makes the whole mask of a rule."""

    def mask(batch: torch.Tensor, head: torch.Tensor, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        rows, columns = queries[:, None], keys[None, :]
        if not bh_indices:
            return rule(batch, head, rows, columns).expand(len(queries), len(keys))
        whole = rule(batch[:, None, None, None], head[None, :, None, None], rows, columns)
        return whole.expand(len(batch), len(head), len(queries), len(keys))

    return mask


def _architecture(config: Any) -> Any:
    """Return the model class that a configuration names, ``AutoModel`` if it names none."""
    name = (getattr(config, "architectures", None) or ["AutoModel"])[0]
    kind = getattr(transformers, name, None)
    # A folder names it, so it must be a class of models, not just anything that transformers has.
    if not (inspect.isclass(kind) and issubclass(kind, (transformers.PreTrainedModel, transformers.AutoModel))):
        raise ValueError(f"transformers {transformers.__version__} has no model `{name}`")
    return kind


def _load(path: Path, config: Any) -> Any:
    # Seeded here as well: transformers draws random values for weights that the file lacks.
    with _fixed_seed():
        return _architecture(config).from_pretrained(path, local_files_only=True, attn_implementation="eager")


def _initialize(config: Any) -> Any:
    _log.info("Initializing `%s` with random weights.", type(config).__name__)
    kind, config = _architecture(config), copy.deepcopy(config)
    # Exported fused attention is the same computation in more operators than the eager implementation.
    config._attn_implementation = "eager"
    with _fixed_seed():
        return (kind.from_config(config) if kind is transformers.AutoModel else kind(config)).eval()


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """Draw from a fixed seed, and leave the user's random state as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        yield


def _example_inputs(model: Any, request: ModelRequest) -> dict[str, torch.Tensor]:
    declarations = _declared_inputs(model, request.inputs)
    main = declarations[0]
    is_from_user = main.name in request.inputs
    if not is_from_user and not (main.shape and all(isinstance(size, int) for size in main.shape[1:])):
        example = EXAMPLES.get(main.name, f"{main.dtype}[1,16000]")
        raise UserError(
            f"`{request.source}` leaves the sizes of `{main}` open; "
            f"give them, for example: --input {main.name}:{example}"
        )
    if not is_from_user:
        request = replace(request, batch=request.batch or 1)
    return {name: _example_tensor(name, kind) for name, kind in request.bind_inputs(declarations).items()}


def _declared_inputs(model: Any, user_inputs: Mapping[str, TensorType]) -> list[DeclaredInput]:
    """Return the inputs to run a model on: its main input first, then the others that the user states.

    Args:
        model: The model.
        user_inputs: The input types that the user states.
    """
    main = model.main_input_name
    arguments = inspect.signature(model.forward).parameters
    shapes = _configured_shapes(model, arguments)
    # A mask may have one matrix per head, and for other arguments only the user knows the shape.
    for name in user_inputs:
        if name in arguments and len(user_inputs[name].shape) != len(shapes.get(name) or ()):
            shapes[name] = None
    default = {"pixel_values": str(model.dtype).removeprefix("torch."), "input_ids": "int64"}.get(main, "float32")
    dtypes = {name: kind.dtype for name, kind in user_inputs.items() if kind.dtype}
    dtype = dtypes.get(main, default)
    return [DeclaredInput(name, shape, dtypes.get(name, dtype)) for name, shape in shapes.items()]


def _configured_shapes(model: Any, arguments: Collection[str]) -> dict[str, tuple[Dimension, ...] | None]:
    """Return the input shapes that a model's configuration implies, by argument name; ``None`` for an unknown one."""
    main, config = model.main_input_name, model.config
    if main == "pixel_values":
        return {main: ("batch", getattr(config, "num_channels", None), *_image_size(config))}
    if main == "input_ids":
        names = ["input_ids", "attention_mask"]
        # Some models accept token types but were never trained with them; their configuration has no vocabulary.
        names += ["token_type_ids"] if hasattr(config, "type_vocab_size") else []
        return {name: ("batch", "sequence") for name in names if name in arguments}
    return {main: None}


def _image_size(config: Any) -> tuple[Dimension, Dimension]:
    size = getattr(config, "image_size", None)
    height, width = size if isinstance(size, tuple | list) else (size, size)
    return height, width


def _example_tensor(name: str, kind: TensorType) -> torch.Tensor:
    # A mask of ones hides nothing. Zero is a valid pixel, and a valid token of every vocabulary.
    fill: Any = torch.ones if name.endswith("mask") else torch.zeros
    tensor: torch.Tensor = fill(kind.shape, dtype=getattr(torch, kind.dtype))
    return tensor
