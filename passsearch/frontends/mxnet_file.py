"""Front end for MXNet's symbol and parameter files; it reads them without MXNet."""

import ast
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from passsearch.core import DeclaredInput, parse_json
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import ModelRequest

ENDING = "-symbol.json"
NAMES_BYTES = 1 << 22
"""Size of the end of a parameter file that is searched for names; MXNet writes them after all arrays."""

OPEN = "-1"
"""Type number of a variable whose type is open; MXNet's default is float32."""

# The type numbers of mshadow, as a symbol's `__dtype__` holds them.
DTYPES = {OPEN: "float32", "0": "float32", "1": "float64", "2": "float16", "3": "uint8", "4": "int32", "5": "int8"}
DTYPES |= {"6": "int64", "7": "bool"}


def from_path(path: Path, request: ModelRequest, *, name: str | None = None) -> ModelFile:
    """Return a symbol file with its parameter file: the one with the highest epoch number, else ``NAME.params``.

    Raises:
        UserError: The file holds no symbol, its parameters are missing, or an input is unknown, stays open or has a
            type that is not known here.
    """
    params = parameters_beside(path)
    # The label of a loss layer is an argument of the symbol too, but inference does not read it.
    inputs = [
        _declared_input(name, attributes, request)
        for name, attributes in _input_variables(path, params)
        if name in request.inputs or not name.endswith("label")
    ]
    for entry in inputs:
        if entry.shape is None and entry.name not in request.inputs:
            raise UserError(
                f"`{request.source}` does not say the shape of `{entry.name}`, and `{params.name}` does not hold it; "
                f"give every input, for example: --input {entry.name}:{entry.dtype}[1,3,224,224]"
            )
    types = request.bind_inputs(inputs)
    name = name or path.name.removesuffix(ENDING)
    return ModelFile(path, "mxnet", name, request.source, digest_files((path, params)), types, parameters=params)


def parameters_beside(path: Path) -> Path:
    """Return ``NAME-0007.params`` with the highest number, else ``NAME.params``.

    Raises:
        UserError: Neither file exists, or the file is empty.
    """
    name = path.name.removesuffix(ENDING)
    epochs = re.compile(re.escape(name) + r"-\d{4,}\.params")
    candidates = [file for file in path.parent.iterdir() if epochs.fullmatch(file.name)]
    # By number, not by name: epoch 10000 has five digits.
    newest = max(
        candidates, key=lambda file: int(file.stem.rpartition("-")[2]), default=path.with_name(f"{name}.params")
    )
    if not newest.is_file():
        raise UserError(
            f"`{path.name}` has no parameters beside it; put `{name}-0000.params` or `{name}.params` there "
            "(HybridBlock.export and save_checkpoint write both)."
        )
    if newest.stat().st_size == 0:
        raise UserError(f"`{newest.name}` is empty; export the network again.")
    return newest


def _input_variables(path: Path, params: Path) -> list[tuple[str, Mapping[str, str]]]:
    """Return the symbol's variables that have no parameter, each with its attributes; a symbol does not mark inputs."""
    variables = dict(_variables(path))
    with params.open("rb") as file:
        file.seek(max(0, params.stat().st_size - NAMES_BYTES))
        names = file.read()
    inputs = [name for name in variables if not _holds_parameter(names, name)]
    if len(inputs) == len(variables):
        raise UserError(f"`{params.name}` holds no parameter of `{path.name}`; export both again, together.")
    return [(name, variables[name]) for name in inputs]


def _variables(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield names and attributes of the graph's variables: its inputs and parameters."""
    try:
        nodes = parse_json(path.read_bytes())["nodes"]
        for node in nodes:
            if node["op"] == "null":
                yield node["name"], node.get("attrs", {})
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"Cannot read `{path}` as an MXNet symbol ({error!r}); write it with HybridBlock.export."
        ) from error


def _holds_parameter(names: bytes, name: str) -> bool:
    """Return true if the names of a parameter file contain a name."""
    # The file stores the length before each name, so a name is not mistaken for a part of a longer one.
    keys = [f"{kind}:{name}".encode() for kind in ("arg", "aux")]
    return any(struct.pack("<Q", len(key)) + key in names for key in keys)


def _declared_input(name: str, attributes: Mapping[str, str], request: ModelRequest) -> DeclaredInput:
    text = attributes.get("__shape__", "None")
    try:
        shape: Any = ast.literal_eval(text)
        sizes = None if shape is None else tuple(size if size > 0 else None for size in shape)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UserError(
            f"`{request.source}` declares `{name}` with the shape `{text}`; a tuple of whole numbers is needed. "
            "Write the symbol again with HybridBlock.export."
        ) from None
    # The type of a variable is only a default in MXNet, so the user's type is no contradiction.
    user_type = request.inputs.get(name)
    if user_type and user_type.dtype:
        return DeclaredInput(name, sizes, user_type.dtype)
    number = str(attributes.get("__dtype__", OPEN))
    if number not in DTYPES:
        raise UserError(
            f"`{request.source}` has `{name}` in type number {number}; known are {', '.join(DTYPES)}. "
            f"Give its type, for example: --input {name}:float32[1,3,224,224]"
        )
    return DeclaredInput(name, sizes, DTYPES[number])
