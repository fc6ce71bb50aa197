"""The constants of all states of one process, each held once: what every dialect's table of them has in common."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np

from passsearch.dialects.contract import Array

DIGEST_BYTES = 16

Tensor: TypeAlias = Any
"""A compiler's own array."""


class HeldConstants(ABC):
    """Constants by a digest of their content, dtype and shape."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}
        self._digests: dict[int, str] = {}  # by the address of a held constant, which stays its own

    @abstractmethod
    def address(self, data: Tensor) -> int:
        """What tells one array from another of equal content, as long as it is held."""

    @abstractmethod
    def tensor(self, array: Array, dtype: str) -> Tensor:
        """A new array of the compiler's; numpy lacks some of its types, so the dtype is given."""

    def missing(self, digests: Collection[str]) -> list[str]:
        """Those that are not held."""
        return [digest for digest in digests if digest not in self._held]

    def array(self, digest: str) -> Array:
        """The value of a held constant."""
        value: Array = self._held[digest].numpy()
        return value

    def put(self, digest: str, array: Array) -> None:
        """Hold a constant."""
        if digest not in self._held:
            self._hold(digest, self.tensor(array, digest.partition("-")[2]))

    def keep(self, digests: Collection[str]) -> None:
        """Let all others go."""
        self._held = {digest: data for digest, data in self._held.items() if digest in digests}
        self._digests = {self.address(data): digest for digest, data in self._held.items()}

    def held(self, digest: str) -> Tensor:
        """A held constant as the compiler has it."""
        return self._held[digest]

    def digest(self, data: Tensor) -> str:
        """Of an array, which is held from now on."""
        known = self._digests.get(self.address(data))
        if known is not None:
            return known
        array = data.numpy()
        hasher = hashlib.blake2b(f"{data.dtype}{array.shape}".encode(), digest_size=DIGEST_BYTES)
        hasher.update(np.ascontiguousarray(array).data)
        digest = f"{hasher.hexdigest()}-{data.dtype}"
        if digest not in self._held:
            self._hold(digest, data)
        return digest

    def _hold(self, digest: str, data: Tensor) -> None:
        self._held[digest] = data
        self._digests[self.address(data)] = digest
