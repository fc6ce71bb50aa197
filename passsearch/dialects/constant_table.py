"""The part of a table of constants that does not depend on the compiler's array type.

One process holds many states of one network, and nearly all of them share their weights. The table therefore stores
every constant once, under a digest of its content.
"""

import hashlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.dialects.contract import Array

DIGEST_BYTES = 16

RELEASED_BYTES = 1 << 24
"""Size from which the pages of a mapped array are given back."""

MAPPED_BYTES = 1 << 20
"""Size from which an array is mapped from its file; the system limits the number of mappings."""

Tensor: TypeAlias = Any
"""An array type of the compiler."""


class BaseConstantTable(ABC):
    """Constants by a digest of their content, dtype and shape."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        # Hashing 100 MB of weights takes longer than a pass, so the digest of a tensor is looked up by its address.
        # The table holds a reference to each tensor; therefore no other tensor can get the same address.
        self._digests: dict[int, str] = {}
        self._mapped: dict[str, mmap.mmap] = {}

    @abstractmethod
    def address(self, data: Tensor) -> int:
        """Return a number that identifies the array object as long as the table holds it."""

    @abstractmethod
    def tensor(self, array: Array, dtype: str) -> Tensor:
        """Return a new compiler array with these values; numpy lacks some of the compiler's dtypes."""

    @abstractmethod
    def view(self, array: Array) -> Tensor:
        """Return a compiler array on the memory of ``array``, which is writeable and aligned."""

    def missing(self, digests: Collection[str]) -> list[str]:
        """Return the digests whose constants the table does not hold."""
        return [digest for digest in digests if digest not in self._tensors]

    def array(self, digest: str) -> Array:
        """Return the value of a constant in the table."""
        value: Array = self._tensors[digest].numpy()
        return value

    def put(self, digest: str, array: Array) -> None:
        """Store a constant."""
        if digest not in self._tensors:
            self._store(digest, self.tensor(array, _dtype(digest)))

    def read(self, digest: str, path: Path) -> bool:
        """Store the constant in a file of numpy's, in place of an equal one in memory.

        Returns:
            True if the file is mapped: all processes that map it share its pages, and the system may drop them.
        """
        # Changes of a mapping in this mode stay within this process.
        array: Array = np.load(path, mmap_mode="c")
        is_mapped = array.nbytes >= MAPPED_BYTES and str(array.dtype) == _dtype(digest)
        if is_mapped:
            self._drop(digest)
            self._store(digest, self.view(array))
            if array.nbytes >= RELEASED_BYTES:
                pages: Any = array.base  # numpy's types do not know it
                self._mapped[digest] = pages
        else:
            self.put(digest, array)
        return is_mapped

    def release(self) -> None:
        """Give back the pages of mapped constants; where they are used again, the system takes them from the files."""
        for pages in self._mapped.values():
            # Nothing writes to a constant, so no page differs from its file.
            pages.madvise(mmap.MADV_DONTNEED)

    def keep(self, digests: Collection[str]) -> None:
        """Drop all constants but these."""
        self._tensors = {digest: data for digest, data in self._tensors.items() if digest in digests}
        self._digests = {self.address(data): digest for digest, data in self._tensors.items()}
        self._mapped = {digest: pages for digest, pages in self._mapped.items() if digest in digests}

    def compiler_tensor(self, digest: str) -> Tensor:
        """Return a constant in the table as the compiler's array."""
        return self._tensors[digest]

    def digest(self, data: Tensor) -> str:
        """Store an array and return its digest."""
        cached = self._digests.get(self.address(data))
        if cached is not None:
            return cached
        digest = constant_digest(data.numpy(), str(data.dtype))
        # A second array of equal content is not stored, so its address may be reused: its digest is not cached.
        if digest not in self._tensors:
            self._store(digest, data)
        return digest

    def _store(self, digest: str, data: Tensor) -> None:
        self._tensors[digest] = data
        self._digests[self.address(data)] = digest

    def _drop(self, digest: str) -> None:
        data = self._tensors.pop(digest, None)
        self._mapped.pop(digest, None)
        if data is not None:
            self._digests.pop(self.address(data), None)


def constant_digest(array: Array, dtype: str) -> str:
    """Return the digest of a constant of the compiler's dtype."""
    hasher = hashlib.blake2b(f"{dtype}{array.shape}".encode(), digest_size=DIGEST_BYTES)
    hasher.update(np.ascontiguousarray(array).data)
    return f"{hasher.hexdigest()}-{dtype}"


def _dtype(digest: str) -> str:
    # The digest ends with the dtype, because bfloat16 reaches numpy as uint16.
    return digest.partition("-")[2]
