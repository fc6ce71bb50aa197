"""The states (IRs) that one worker caches: skeletons, and each constant once, in memory and in an optional folder."""

import json
import math
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from passsearch.core import safe_file_name
from passsearch.dialects.contract import Bridge, Module, Skeleton

MAX_MODULES = 4
"""Number of whole modules kept beside their skeletons: the one that passes are applied to, and the latest results."""

MIN_STATES = 2
"""Number of states that stay in memory however short it is: the input of a pass and its result."""


def resident_bytes(*, with_files: bool = True) -> int:
    """Return the memory that this process occupies now, with or without the pages of files."""
    _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return (resident if with_files else resident - shared) * os.sysconf("SC_PAGE_SIZE")


def _private_bytes() -> int:
    # The system drops pages of files by itself when memory runs short.
    return resident_bytes(with_files=False)


@dataclass(frozen=True)
class _State:
    skeleton: Skeleton
    constants: frozenset[str]


class StateCache:
    """States by identity. The least recently used states leave memory when it runs short."""

    def __init__(
        self,
        bridge: Bridge,
        *,
        budget_bytes: int,
        folder: Path | None = None,
        disk_bytes: int | None = None,
        memory_in_use: Callable[[], int] = _private_bytes,
    ) -> None:
        """Create an empty cache.

        Args:
            bridge: The compiler's bridge.
            budget_bytes: Memory that this process may occupy before states leave it.
            folder: Folder that every state is written to, for other workers and for this one when memory runs short;
                ``None`` writes nothing: a state that leaves memory is then lost.
            disk_bytes: Size of the files that this cache writes at most; states beyond it stay in memory only. ``None``
                for no limit.
            memory_in_use: Returns the memory that this process occupies, in bytes.
        """
        self.bridge = bridge
        self._disk_bytes = math.inf if disk_bytes is None else disk_bytes
        self._budget_bytes, self._folder, self._memory_in_use = budget_bytes, folder, memory_in_use
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._modules: OrderedDict[str, Module] = OrderedDict()
        if folder is not None:
            for path in (folder, folder / "states", folder / "constants"):
                path.mkdir(exist_ok=True)

    def has(self, identity: str) -> bool:
        """Return whether ``get`` would find the state, in memory or on disk."""
        return identity in self._states or self._path(identity) is not None

    def get(self, identity: str) -> Module | None:
        """Return a state, which becomes the most recently used one; ``None`` if it is not cached."""
        state = self._find(identity)
        if state is None:
            return None
        module = self._modules.pop(identity, None)
        if module is None:
            self._load_constants(state)
            module = self.bridge.constants.fill(state.skeleton)
        self._insert(identity, state, module=module)
        return module

    def add(self, module: Module) -> tuple[str, bool]:
        """Cache a state; returns its identity and whether it is new here.

        Two different IRs with one hash get two identities, which differ by a suffix.
        """
        # A pass has read the constants of its input, and those of its result are read now.
        self.release()
        skeleton, constants = self.bridge.constants.strip(module)
        identity = self.bridge.identity(skeleton)
        match = self._find(identity)
        while match is not None and not self.bridge.equal(match.skeleton, skeleton):
            identity += "+"
            match = self._find(identity)
        state = match or _State(skeleton, constants)
        is_moved = match is None and self._write(identity, state)
        # A module that holds constants which are in files now would keep them in memory as well.
        self._insert(identity, state, module=None if is_moved else module)
        return identity, match is None

    def release(self) -> None:
        """Give back the pages of files that were read."""
        if self._states:
            self.bridge.constants.release()

    def share(self, identity: str) -> None:
        """Write a state that another worker needs now, beyond the limit of the disk too."""
        state = self._find(identity)
        if state is not None and self._path(identity) is None:
            self._write(identity, state, is_needed=True)

    def identity(self, module: Module) -> str:
        """Return the identity of a module without caching it."""
        return self.bridge.identity(self.bridge.constants.strip(module)[0])

    def _insert(self, identity: str, state: _State, *, module: Module | None) -> None:
        self._states[identity] = state
        self._states.move_to_end(identity)
        self._modules.pop(identity, None)
        if module is not None:
            self._modules[identity] = module
        while len(self._modules) > MAX_MODULES:
            self._modules.popitem(last=False)
        while len(self._states) > MIN_STATES and self._memory_in_use() > self._budget_bytes:
            oldest, _ = self._states.popitem(last=False)
            self._modules.pop(oldest, None)
            # Constants hold nearly all the memory; those that no other state shares are freed here.
            self.bridge.constants.keep(frozenset[str]().union(*(state.constants for state in self._states.values())))

    def _find(self, identity: str) -> _State | None:
        if identity in self._states:
            return self._states[identity]
        path = self._path(identity)
        if path is None:
            return None
        document = json.loads(path.read_text())
        return _State(self.bridge.read(document["skeleton"]), frozenset(document["constants"]))

    def _path(self, identity: str) -> Path | None:
        path = _state_file(self._folder, identity) if self._folder is not None else None
        return path if path is not None and path.exists() else None

    def _load_constants(self, state: _State) -> None:
        """Load the constants that another worker wrote or that left memory."""
        for digest in self.bridge.constants.missing(state.constants):
            assert self._folder is not None
            self.bridge.constants.read(digest, self._folder / "constants" / f"{digest}.npy")

    def _write(self, identity: str, state: _State, *, is_needed: bool = False) -> bool:
        """Write a state for other workers; return True if constants of it have moved from memory to files."""
        if self._folder is None or (self._disk_bytes <= 0 and not is_needed):
            return False
        is_moved = False
        for digest in state.constants:
            path = self._folder / "constants" / f"{digest}.npy"
            if not path.exists():
                array = self.bridge.constants.array(digest)
                _write_atomically(path, lambda file, array=array: np.save(file, array))  # type: ignore[misc]
                self._disk_bytes -= array.nbytes
                del array
                is_moved |= self.bridge.constants.read(digest, path)
        # The state comes last, so that a worker that finds it finds all its constants.
        text = json.dumps({"constants": sorted(state.constants), "skeleton": self.bridge.write(state.skeleton)})
        _write_atomically(_state_file(self._folder, identity), lambda file: file.write(text.encode()))
        self._disk_bytes -= len(text)
        return is_moved


def _state_file(folder: Path, identity: str) -> Path:
    # The log of another user's run may name any state.
    return folder / "states" / f"{safe_file_name(identity)}.json"


def _write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that other workers see either the whole file or no file."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with unfinished.open("wb") as file:
            write(file)
        unfinished.replace(path)
    except BaseException:  # a full disk; its last room must not stay taken
        unfinished.unlink(missing_ok=True)
        raise
