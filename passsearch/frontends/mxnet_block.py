"""Front end for Gluon blocks and MXNet symbols in memory: they become symbol and parameter files."""

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
from passsearch.frontends.model_file import ModelFile, save_group
from passsearch.frontends.request import ModelRequest, first_line

# Errors of calling a block with symbols: those of MXNet, and those of the block's own code.
_ERRORS = (mx.base.MXNetError, RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)


def from_symbol(model: Any, request: ModelRequest) -> ModelFile:
    """Save a pair ``(symbol, params)``, or the three objects that ``load_checkpoint`` returns.

    Raises:
        UserError: The parameters are missing or are not arrays by name, or an input is unknown or stays open.
        EnvironmentFault: The folder cannot be written.
    """
    symbol, *groups = model if isinstance(model, tuple) else (model,)
    if not groups or not all(isinstance(group, Mapping) for group in groups):
        raise UserError(
            f"`{request.source}` is a symbol without its parameters; give (symbol, params), arrays by name."
        )
    # A parameter is called `arg:weight` in files and `weight` in memory.
    params = {name.partition(":")[2] or name: value for group in groups for name, value in group.items()}
    return _save(symbol, params, request=request, name=symbol.name or "network")


def from_block(block: Any, request: ModelRequest) -> ModelFile:
    """Save a block, hybridized or not, as its symbol; the block is not changed.

    Raises:
        UserError: The block has no symbolic form, its parameters have no values yet, or its inputs are not stated.
        EnvironmentFault: The folder cannot be written.
    """
    if not isinstance(block, mx.gluon.HybridBlock):
        raise UserError(f"`{request.source}` is no HybridBlock, so it has no graph; derive it from gluon.HybridBlock.")
    inputs = _order_inputs(block, request.inputs or dict(_example_types(request.example_inputs)))
    if not inputs:
        raise UserError(
            f"`{request.source}` does not name its inputs; give inputs or example_inputs, "
            "for example: --input data:float32[1,3,224,224]"
        )
    symbol = _trace(block, inputs, source=request.source)
    values = _parameter_values(block, request)
    return _save(symbol, values, request=replace(request, inputs=inputs), name=block.name)


def _trace(block: Any, inputs: Mapping[str, TensorType], *, source: str) -> Any:
    """Return the symbol that a block computes from variables of these names."""
    try:
        # A name manager of its own: operator names then do not depend on what this process traced before.
        with mx.name.NameManager():
            outputs = list(_flatten(block(*map(mx.sym.var, inputs))))
    except _ERRORS as error:
        raise UserError(
            f"`{source}` has no graph with the inputs {', '.join(inputs)} ({first_line(error)}); "
            "give what its hybrid_forward takes."
        ) from error
    return outputs[0] if len(outputs) == 1 else mx.sym.Group(outputs)


def _order_inputs(block: Any, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the inputs in the order of the block's arguments, or as they are if a name is no argument."""
    arguments = [*inspect.signature(block.hybrid_forward).parameters]
    if not all(name in arguments for name in inputs):
        return dict(inputs)
    return {name: inputs[name] for name in sorted(inputs, key=arguments.index)}


def _example_types(examples: Any) -> Iterator[tuple[str, TensorType]]:
    """Yield the types of example arrays, with the names that ``HybridBlock.export`` gives to inputs."""
    if not isinstance(examples, Mapping):
        arrays = examples if isinstance(examples, tuple | list) else [] if examples is None else [examples]
        examples = {"data" if len(arrays) == 1 else f"data{index}": array for index, array in enumerate(arrays)}
    for name, array in examples.items():
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise UserError(f"Example input `{name}` is a `{type(array).__name__}`; give an array, a tuple or a dict.")
        yield name, TensorType(tuple(array.shape), np.dtype(array.dtype).name)


def _flatten(outputs: Any) -> Iterator[Any]:
    """Yield the symbols of nested tuples and lists in order."""
    for output in outputs if isinstance(outputs, tuple | list) else (outputs,):
        if isinstance(output, tuple | list):
            yield from _flatten(output)
        else:
            yield output


def _parameter_values(block: Any, request: ModelRequest) -> dict[str, Any]:
    try:
        return {name: parameter.data(parameter.list_ctx()[0]) for name, parameter in block.collect_params().items()}
    except RuntimeError as error:  # MXNet raises it for a parameter without a value.
        raise UserError(
            f"`{request.source}` has parameters without values ({first_line(error)}); initialize it and run it once."
        ) from error


def _save(symbol: Any, params: Mapping[str, Any], *, request: ModelRequest, name: str) -> ModelFile:
    kinds = {"arg": symbol.list_arguments(), "aux": symbol.list_auxiliary_states()}
    arrays = {
        f"{kind}:{variable}": _to_array(variable, params[variable])
        for kind, variables in kinds.items()
        for variable in variables
        if variable in params
    }

    def write(stem: Path) -> None:
        Path(f"{stem}{mxnet_file.ENDING}").write_text(_to_json(symbol))
        mx.nd.save(f"{stem}-0000.params", arrays)

    stem = save_group(request.folder, name, write=write)
    return mxnet_file.from_path(Path(f"{stem}{mxnet_file.ENDING}"), request, name=name)


def _to_array(name: str, value: Any) -> Any:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise UserError(f"Parameter `{name}` is a `{type(value).__name__}`; give an array.")
    return value if isinstance(value, mx.nd.NDArray) else mx.nd.array(value, dtype=value.dtype)


def _to_json(symbol: Any) -> str:
    graph = json.loads(symbol.tojson())
    # The third number counts how often the variable was written. It grows with every call of the block, and would give
    # the same network another digest.
    for node in graph["nodes"]:
        node["inputs"] = [[source, output, 0] for source, output, *_ in node["inputs"]]
    return json.dumps(graph, indent=1)
