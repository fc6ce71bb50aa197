"""Weights of a built network in files beside its library, where they are large.

Code generation copies embedded weights several times, and the virtual machine copies them once more. In files of their
own they are mapped, and all processes that run the network share them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

LARGE_BYTES = 1 << 20
"""Size of a large weight."""

LEAST_BYTES = 1 << 28
"""Size of all large weights together from which they are separate."""

FOLDER, TABLE = "constants", "weights.json"

DTYPES = frozenset({"float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64"})
"""Types of numbers that numpy has too."""


def separate_weights(module: tvm.IRModule, folder: Path, store: Callable[[Any, Path], str]) -> tvm.IRModule:
    """Write the large weights of a lowered network to files, and return the network with parameters for them.

    Args:
        module: The network, for a CPU. Its entry functions get their weights after their inputs.
        folder: Folder of the library.
        store: Writes an array to a file of numpy in a folder; returns the name without its suffix.

    Returns:
        ``module`` itself if its weights are small.
    """
    values: dict[str, tvm.runtime.Tensor] = {}
    lifted, names, table = module.clone(), dict[int, str](), dict[str, list[str]]()
    for entry in entries(module):
        function = lift_constants(module[entry], names, values, least_bytes=LARGE_BYTES)
        lifted.update_func(entry, function)
        table[entry.name_hint] = [str(each.name) for each in function.params[len(module[entry].params) :]]
    sizes = [tensor_bytes(value) for value in values.values()]
    if sum(sizes) < LEAST_BYTES or not DTYPES.issuperset(str(value.dtype) for value in values.values()):
        return module
    (folder / FOLDER).mkdir(exist_ok=True)
    files = {name: store(np.from_dlpack(value), folder / FOLDER) for name, value in values.items()}
    document = {entry: [files[name] for name in own] for entry, own in table.items()}
    (folder / TABLE).write_text(json.dumps(document))
    return lifted


def save(array: Any, folder: Path) -> str:
    """Write an array to a file that is named by its content, and return the name without its suffix."""
    content = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
    content.update(np.ascontiguousarray(array).data)
    path = folder / f"{content.hexdigest()}.npy"
    if not path.exists():
        np.save(path, array)
    return path.stem


def weight_files(folder: Path, function: str) -> list[Path]:
    """Return the files of the weights that follow the inputs of a function; none where they are embedded."""
    if not (folder / TABLE).exists():
        return []
    table = json.loads((folder / TABLE).read_text())
    return [folder / FOLDER / f"{name}.npy" for name in table.get(function, ())]


def check_weights(built: Any, function: str) -> None:
    """Raise an error if a weight of a function is not as it was built; ``built`` is ``checked_files.Built``."""
    if built.has(TABLE):
        built.path(TABLE)
    for file in weight_files(built.folder, function):
        built.path(file.relative_to(built.folder).as_posix())


def read_weights(folder: Path, function: str) -> list[Any]:
    """Return the weights that follow the inputs of a function; none where they are embedded."""
    # Changes of a mapping in this mode stay within this process.
    return [tvm.runtime.from_dlpack(np.load(file, mmap_mode="c")) for file in weight_files(folder, function)]


def read_all_weights(folder: Path, functions: list[str]) -> dict[str, list[Any]]:
    """Return the weights of several functions; one that several take is mapped once."""
    files = {name: weight_files(folder, name) for name in functions}
    arrays = {
        file: tvm.runtime.from_dlpack(np.load(file, mmap_mode="c")) for own in files.values() for file in set(own)
    }
    return {name: [arrays[file] for file in own] for name, own in files.items()}


def entries(module: tvm.IRModule) -> list[tvm.ir.GlobalVar]:
    """Return the variables of the entry functions by name: ``main``, or one ``main_NAME`` for each of several cases."""
    functions = {
        variable.name_hint: variable
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    }
    names = ["main"] if "main" in functions else sorted(name for name in functions if name.startswith("main_"))
    return [functions[name] for name in names]


def lift_constants(
    function: relax.Function,
    names: dict[int, str],
    values: dict[str, tvm.runtime.Tensor],
    *,
    least_bytes: int,
) -> relax.Function:
    """Return a function with further parameters in place of large constants, which are added to ``values``."""
    variables: dict[int, relax.Var] = {}

    def lift(constant: GenericConst) -> relax.Expr:
        data = constant.value
        if not isinstance(data, tvm.runtime.Tensor) or tensor_bytes(data) < least_bytes:
            return constant
        # By node and not by value: a constant that is used twice gets one variable, two equal constants get two.
        node = constant.__chandle__()
        if node not in variables:
            name = names.setdefault(node, f"constant:{len(names)}")
            variables[node] = relax.Var(name, constant.ty)
            values[name] = data
        return variables[node]

    body = tvm_ffi.structural_map(function.body, (GenericConst, lift))
    params = [*function.params, *variables.values()]
    return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs)


def tensor_bytes(data: tvm.runtime.Tensor) -> int:
    """Return the size of an array."""
    return math.prod(map(int, data.shape)) * ((int(tvm_ffi.dtype(data.dtype).bits) + 7) // 8)
