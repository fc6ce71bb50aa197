"""Large weights of artifacts: all artifacts and states of one run that have an equal weight share one file."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.dialects.constant_table import constant_digest
from passsearch.standalone.relax.deployment.separate_weights import FOLDER


def store_weight(array: Any, folder: Path) -> str:
    """Write an array to a file that is named by its digest, and return the digest.

    Files with equal content in the folders beside the artifact are linked.
    """
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


def weight_bytes(folder: Path) -> int:
    """Return the size of the separate weights of an artifact."""
    return sum(file.stat().st_size for file in (folder / FOLDER).glob("*.npy"))
