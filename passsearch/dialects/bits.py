"""Digests of the bits of arrays. numpy only."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from passsearch.dialects.contract import Array

DIGITS = 16
"""Number of hexadecimal digits of a digest."""


def bits_of(arrays: Sequence[Array]) -> str:
    """Return a digest of the types, the shapes and all bits of arrays.

    All NaN are one: which of them an operation returns depends on the order of its operands alone.
    """
    whole = hashlib.sha256()
    for array in arrays:
        if array.dtype.kind == "f" and np.isnan(array).any():
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        whole.update(f"{array.dtype}{list(array.shape)}".encode())
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:DIGITS]


def bits_by_case(outputs: Mapping[str, Array]) -> dict[str, str]:
    """Return the digest of the outputs of every case, from outputs by ``<case>_<index>``."""
    cases: dict[str, list[Array]] = {}
    for key, array in outputs.items():
        cases.setdefault(key.rpartition("_")[0], []).append(array)
    return {case: bits_of(arrays) for case, arrays in cases.items()}
