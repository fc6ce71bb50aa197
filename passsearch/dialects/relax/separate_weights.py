"""Weights of a built network in files beside its library, where they are large.

Code generation copies embedded weights several times, and the virtual machine copies them once more. In files of their
own they are mapped, and all artifacts and states of one run that have an equal weight share one file.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from passsearch.dialects.constant_table import MAPPED_BYTES, constant_digest
from passsearch.dialects.relax.entries import entries
from passsearch.dialects.relax.ir_file import lift_constants, tensor_bytes

LEAST_BYTES = 1 << 28
"""Size of all large weights together from which they are separate."""

FOLDER, TABLE = "constants", "weights.json"

DTYPES = frozenset({"float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64"})
"""Types of numbers that numpy has too."""


def separate_weights(module: tvm.IRModule, folder: Path) -> tvm.IRModule:
    """Write the large weights of a lowered network to files, and return the network with parameters for them.

    Args:
        module: The network, for a CPU. Its entry functions get their weights after their inputs.
        folder: Folder of the artifact. Files with equal content in the folders beside it are linked.

    Returns:
        ``module`` itself if its weights are small.
    """
    values: dict[str, tvm.runtime.Tensor] = {}
    lifted, names, table = module.clone(), dict[int, str](), dict[str, list[str]]()
    for entry in entries(module):
        function = lift_constants(module[entry], names, values, least_bytes=MAPPED_BYTES)
        lifted.update_func(entry, function)
        table[entry.name_hint] = [str(each.name) for each in function.params[len(module[entry].params) :]]
    sizes = [tensor_bytes(value) for value in values.values()]
    if sum(sizes) < LEAST_BYTES or not DTYPES.issuperset(str(value.dtype) for value in values.values()):
        return module
    (folder / FOLDER).mkdir(exist_ok=True)
    digests = {name: _write(np.from_dlpack(value), folder / FOLDER) for name, value in values.items()}
    document = {entry: [digests[name] for name in own] for entry, own in table.items()}
    (folder / TABLE).write_text(json.dumps(document))
    return lifted


def _write(array: Any, folder: Path) -> str:
    """Write an array to a file that is named by its digest, and return the digest."""
    digest = constant_digest(array, str(array.dtype))
    name = f"{digest}.npy"
    for file in (folder / name, *folder.parents[1].glob(f"*/{FOLDER}/{name}")):
        if not _has_content(file, digest):
            continue
        if file.parent != folder:
            try:
                os.link(file, folder / name)
            except OSError:  # no links here, too many of them, or deleted meanwhile
                continue
        return digest
    np.save(folder / name, array)
    return digest


def _has_content(file: Path, digest: str) -> bool:
    """Return whether a file has the content that its name says; another process may be deleting it."""
    try:
        array = np.load(file, mmap_mode="r")
    except (OSError, ValueError):
        return False
    return not file.is_symlink() and constant_digest(array, str(array.dtype)) == digest


def read_weights(folder: Path) -> Mapping[str, Sequence[Any]]:
    """Return, by entry function, the weights of an artifact that follow its inputs; none where they are embedded."""
    if not (folder / TABLE).exists():
        return {}
    table = json.loads((folder / TABLE).read_text())
    files = {digest: folder / FOLDER / f"{digest}.npy" for digests in table.values() for digest in digests}
    # Changes of a mapping in this mode stay within this process.
    tensors = {digest: tvm.runtime.from_dlpack(np.load(file, mmap_mode="c")) for digest, file in files.items()}
    return {entry: [tensors[digest] for digest in digests] for entry, digests in table.items()}


def weight_bytes(folder: Path) -> int:
    """Return the size of the separate weights of an artifact."""
    return sum(file.stat().st_size for file in (folder / FOLDER).glob("*.npy"))
