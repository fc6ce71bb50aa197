"""MXNet's symbol and parameter files, read without MXNet."""

import ast
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.core import DeclaredInput
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files
from passsearch.frontends.request import Asked

ENDING = "-symbol.json"
NAMES_BYTES = 1 << 22
"""As much of a parameter file's end as surely holds the names, which stand behind all the arrays."""

# mshadow's numbers, as symbols carry them in `__dtype__`; -1 stands for open.
DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool"}


def from_path(path: Path, asked: Asked, *, name: str | None = None) -> ModelFile:
    """A symbol with the newest parameters beside it.

    Raises:
        UserError: It is no symbol, its parameters are missing, or an input is unknown or stays open.
    """
    params = parameters_beside(path)
    declared = [_with_given_type(each, asked) for each in _declared(path, params)]
    # A loss layer's label is an argument too, which inference does not read.
    needed = [each for each in declared if each.name in asked.inputs or not each.name.endswith("label")]
    for each in needed:
        if each.shape is None and each.name not in asked.inputs:
            raise UserError(
                f"`{asked.source}` does not say the shape of `{each.name}`, and `{params.name}` does not hold it; "
                f"give every input, for example: --input {each.name}:{each.dtype}[1,3,224,224]"
            )
    bound = asked.settle(needed)
    own = path.name.removesuffix(ENDING)
    return ModelFile(path, "mxnet", name or own, asked.source, digest_files((path, params)), bound, parameters=params)


def parameters_beside(path: Path) -> Path:
    """``NAME-0007.params`` with the highest number, else ``NAME.params``.

    Raises:
        UserError: There is neither, or the file is empty.
    """
    name = path.name.removesuffix(ENDING)
    epochs = re.compile(re.escape(name) + r"-\d{4,}\.params")
    numbered = [file for file in path.parent.iterdir() if epochs.fullmatch(file.name)]
    newest = max(numbered, key=lambda file: int(file.stem.rpartition("-")[2]), default=path.with_name(f"{name}.params"))
    if not newest.is_file():
        raise UserError(
            f"`{path.name}` has no parameters beside it; put `{name}-0000.params` or `{name}.params` there "
            "(HybridBlock.export and save_checkpoint write both)."
        )
    if newest.stat().st_size == 0:
        raise UserError(f"`{newest.name}` is empty; export the network again.")
    return newest


def _declared(path: Path, params: Path) -> list[DeclaredInput]:
    """The arguments that the parameters do not fill."""
    variables = dict(_variables(path))
    with params.open("rb") as file:
        file.seek(max(0, params.stat().st_size - NAMES_BYTES))
        names = file.read()
    open_ones = [name for name in variables if not _holds(names, name)]
    if len(open_ones) == len(variables):
        raise UserError(f"`{params.name}` holds no parameter of `{path.name}`; export both again, together.")
    return [_input(name, variables[name]) for name in open_ones]


def _variables(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Names and attributes of what the graph takes from outside."""
    try:
        nodes = json.loads(path.read_bytes())["nodes"]
        for node in nodes:
            if node["op"] == "null":
                yield node["name"], node.get("attrs", {})
    except (ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"Cannot read `{path}` as an MXNet symbol ({error!r}); write it with HybridBlock.export."
        ) from error


def _holds(names: bytes, name: str) -> bool:
    """Whether a parameter has this name; each stands after its length."""
    written = [f"{kind}:{name}".encode() for kind in ("arg", "aux")]
    return any(struct.pack("<Q", len(each)) + each in names for each in written)


def _input(name: str, attributes: Mapping[str, str]) -> DeclaredInput:
    shape: Any = ast.literal_eval(attributes.get("__shape__", "None"))
    sizes = None if shape is None else tuple(size if size > 0 else None for size in shape)
    return DeclaredInput(name, sizes, DTYPES.get(int(attributes.get("__dtype__", 0)), "float32"))


def _with_given_type(declared: DeclaredInput, asked: Asked) -> DeclaredInput:
    """A variable's type is a default in MXNet: what the user says goes."""
    given = asked.inputs.get(declared.name)
    return declared if given is None else replace(declared, dtype=given.dtype)
