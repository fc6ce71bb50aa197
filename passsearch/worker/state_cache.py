"""The states (IRs) one worker holds: skeletons in memory, constants once each, both on disk where there is a folder."""

import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from passsearch.dialects.contract import Bridge, Module, Skeleton

FILLED = 4
"""Whole modules kept beside their skeletons: the one that passes are applied to, and the latest results."""


@dataclass(frozen=True)
class _State:
    skeleton: Skeleton
    constants: frozenset[str]


class StateCache:
    """States by identity; the least recently used leave memory when it runs short."""

    def __init__(self, bridge: Bridge, *, budget_bytes: int, folder: Path | None = None) -> None:
        """Hold nothing yet.

        Args:
            bridge: Of the compiler.
            budget_bytes: Memory this process may fill.
            folder: Where every state is written, for other workers and for when memory runs short; ``None`` to write
                nothing: a state that leaves memory is then gone.
        """
        self.bridge = bridge
        self._budget_bytes, self._folder = budget_bytes, folder
        self._states: OrderedDict[str, _State] = OrderedDict()
        self._filled: OrderedDict[str, Module] = OrderedDict()
        if folder is not None:
            for name in ("states", "constants"):
                (folder / name).mkdir(parents=True, exist_ok=True)

    def has(self, identity: str) -> bool:
        """Whether ``get`` would answer, at whatever cost."""
        return identity in self._states or self._path(identity) is not None

    def get(self, identity: str) -> Module | None:
        """The state, now the most recently used; ``None`` if it is not held (any more)."""
        state = self._state(identity)
        if state is None:
            return None
        module = self._filled.pop(identity, None)
        if module is None:
            self._fetch(state)
            module = self.bridge.constants.fill(state.skeleton)
        self._remember(identity, state, module=module)
        return module

    def add(self, module: Module) -> tuple[str, bool]:
        """Hold a state under its identity; the answer's second part is whether it is new here.

        Two different IRs with one hash get two identities: a suffix tells them apart.
        """
        skeleton, constants = self.bridge.constants.strip(module)
        identity = self.bridge.identity(skeleton)
        known = self._state(identity)
        while known is not None and not self.bridge.equal(known.skeleton, skeleton):
            identity += "+"
            known = self._state(identity)
        state = known or _State(skeleton, constants)
        if known is None:
            self._write(identity, state)
        self._remember(identity, state, module=module)
        return identity, known is None

    def identity(self, module: Module) -> str:
        """The identity of a module that is not held."""
        return self.bridge.identity(self.bridge.constants.strip(module)[0])

    def _remember(self, identity: str, state: _State, *, module: Module) -> None:
        self._states[identity], self._filled[identity] = state, module
        self._states.move_to_end(identity)
        self._filled.move_to_end(identity)
        while len(self._filled) > FILLED:
            self._filled.popitem(last=False)
        while len(self._states) > 2 and resident_bytes() > self._budget_bytes:
            oldest, _ = self._states.popitem(last=False)
            self._filled.pop(oldest, None)
            self.bridge.constants.keep(frozenset[str]().union(*(each.constants for each in self._states.values())))

    def _state(self, identity: str) -> _State | None:
        if identity in self._states:
            return self._states[identity]
        path = self._path(identity)
        if path is None:
            return None
        written = json.loads(path.read_text())
        return _State(self.bridge.read(written["skeleton"]), frozenset(written["constants"]))

    def _path(self, identity: str) -> Path | None:
        path = self._folder / "states" / f"{identity}.json" if self._folder is not None else None
        return path if path is not None and path.exists() else None

    def _fetch(self, state: _State) -> None:
        """Bring constants back that another worker made or that had to leave memory."""
        for digest in self.bridge.constants.missing(state.constants):
            assert self._folder is not None
            self.bridge.constants.put(digest, np.load(self._folder / "constants" / f"{digest}.npy"))

    def _write(self, identity: str, state: _State) -> None:
        """The state last, so that whoever finds it finds its constants."""
        if self._folder is None:
            return
        for digest in state.constants:
            path = self._folder / "constants" / f"{digest}.npy"
            if not path.exists():
                array = self.bridge.constants.array(digest)
                _write_whole(path, lambda file, array=array: np.save(file, array))  # type: ignore[misc]
        text = json.dumps({"constants": sorted(state.constants), "skeleton": self.bridge.write(state.skeleton)})
        _write_whole(self._folder / "states" / f"{identity}.json", lambda file: file.write(text.encode()))


def _write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Another worker sees the file whole or not at all."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with unfinished.open("wb") as file:
        write(file)
    unfinished.replace(path)


def resident_bytes() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
