"""Gluon blocks and MXNet symbols in memory, as symbol and parameter files."""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends import mxnet_file
from passsearch.frontends.model_file import ModelFile, keep_group
from passsearch.frontends.request import Asked, first_line

# What calling a block with symbols raises: MXNet's own errors, and those of the block's code.
_REFUSALS = (mx.base.MXNetError, RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)


def from_symbol(model: Any, asked: Asked) -> ModelFile:
    """A pair ``(symbol, params)``, or the three that ``load_checkpoint`` returns.

    Raises:
        UserError: There are no parameters, they are no arrays by name, or an input is unknown or stays open.
        EnvironmentFault: The folder cannot be written.
    """
    symbol, *groups = model if isinstance(model, tuple) else (model,)
    if not groups or not all(isinstance(group, Mapping) for group in groups):
        raise UserError(f"`{asked.source}` is a symbol without its parameters; give (symbol, params), arrays by name.")
    # Names are `arg:weight` in files and `weight` in memory.
    params = {name.partition(":")[2] or name: value for group in groups for name, value in group.items()}
    return _kept(symbol, params, asked=asked, name=symbol.name or "network")


def from_block(block: Any, asked: Asked) -> ModelFile:
    """A block as its symbol, hybridized or not; it stays as it was.

    Raises:
        UserError: It has no symbolic form, its parameters have no values yet, or its inputs are not given.
        EnvironmentFault: The folder cannot be written.
    """
    if not isinstance(block, mx.gluon.HybridBlock):
        raise UserError(f"`{asked.source}` is no HybridBlock, so it has no graph; derive it from gluon.HybridBlock.")
    inputs = _in_order(block, asked.inputs or dict(_types(asked.example_inputs)))
    if not inputs:
        raise UserError(
            f"`{asked.source}` does not name its inputs; give inputs or example_inputs, "
            "for example: --input data:float32[1,3,224,224]"
        )
    try:
        with mx.name.NameManager():
            outputs = list(_symbols(block(*map(mx.sym.var, inputs))))
    except _REFUSALS as refusal:
        raise UserError(
            f"`{asked.source}` has no graph with the inputs {', '.join(inputs)} ({first_line(refusal)}); "
            "give what its hybrid_forward takes."
        ) from refusal
    symbol = outputs[0] if len(outputs) == 1 else mx.sym.Group(outputs)
    return _kept(symbol, _values(block, asked), asked=replace(asked, inputs=inputs), name=block.name)


def _in_order(block: Any, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """As the block takes them where they go by its arguments' names, else as they are given."""
    arguments = [*inspect.signature(block.hybrid_forward).parameters]
    known = all(name in arguments for name in inputs)
    return {name: inputs[name] for name in sorted(inputs, key=arguments.index)} if known else dict(inputs)


def _types(examples: Any) -> Iterator[tuple[str, TensorType]]:
    """Types of example arrays, named as ``HybridBlock.export`` names inputs."""
    if not isinstance(examples, Mapping):
        given = examples if isinstance(examples, tuple | list) else [] if examples is None else [examples]
        examples = {"data" if len(given) == 1 else f"data{index}": array for index, array in enumerate(given)}
    for name, array in examples.items():
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise UserError(f"Example input `{name}` is a `{type(array).__name__}`; give an array, a tuple or a dict.")
        yield name, TensorType(tuple(array.shape), np.dtype(array.dtype).name)


def _symbols(answer: Any) -> Iterator[Any]:
    for each in answer if isinstance(answer, tuple | list) else (answer,):
        if isinstance(each, tuple | list):
            yield from _symbols(each)
        else:
            yield each


def _values(block: Any, asked: Asked) -> dict[str, Any]:
    try:
        return {name: parameter.data(parameter.list_ctx()[0]) for name, parameter in block.collect_params().items()}
    except RuntimeError as error:  # MXNet's word for a parameter without a value
        raise UserError(
            f"`{asked.source}` has parameters without values ({first_line(error)}); initialize it and run it once."
        ) from error


def _kept(symbol: Any, params: Mapping[str, Any], *, asked: Asked, name: str) -> ModelFile:
    kinds = {"arg": symbol.list_arguments(), "aux": symbol.list_auxiliary_states()}
    arrays = {
        f"{kind}:{each}": _array(each, params[each])
        for kind, names in kinds.items()
        for each in names
        if each in params
    }

    def write(stem: Path) -> None:
        Path(f"{stem}{mxnet_file.ENDING}").write_text(_text(symbol))
        mx.nd.save(f"{stem}-0000.params", arrays)

    stem = keep_group(asked.folder, name, write=write)
    return mxnet_file.from_path(Path(f"{stem}{mxnet_file.ENDING}"), asked, name=name)


def _array(name: str, value: Any) -> Any:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise UserError(f"Parameter `{name}` is a `{type(value).__name__}`; give an array.")
    return value if isinstance(value, mx.nd.NDArray) else mx.nd.array(value, dtype=value.dtype)


def _text(symbol: Any) -> str:
    """The symbol's JSON without the count of how often its variables were written, which differs from call to call."""
    graph = json.loads(symbol.tojson())
    for node in graph["nodes"]:
        node["inputs"] = [[source, output, 0] for source, output, *_ in node["inputs"]]
    return json.dumps(graph, indent=1)
