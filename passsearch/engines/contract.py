"""The contract of an adapter. Standard library and numpy only: adapters run in interpreters without passsearch.

An adapter is a module of ``passsearch/engines/adapters/`` with

* ``ENVIRONMENT``, the packages that it needs,
* ``ENGINES``, the engines that it has: the settings of each, by the name that users type,
* ``open_engine(model, *, threads, inputs, …)``, whose further keywords are the settings. It returns an ``Engine`` that
  is compiled and ready to run. Whatever it raises becomes the reason why this engine has no result.

The engine's library is imported inside ``open_engine`` only, because the declarations are read where it is missing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.generic]
Inputs: TypeAlias = Mapping[str, Array]
"""Inputs by name, in the order of the model file."""

REQUIREMENTS = Path(__file__).parent / "requirements"
"""Folder of the lock files of all engines."""


class Engine(Protocol):
    """A network in one engine, with its inputs bound.

    Attributes:
        threads: Number of threads that the engine uses.
        versions: Versions of what runs, by package.
        settings: Settings that differ from the engine's defaults.
    """

    threads: int
    versions: Mapping[str, str]
    settings: Mapping[str, Any]

    def outputs(self) -> Sequence[Array]:
        """Run one inference and return its outputs, in the order of the model file. Called before ``infer``."""

    def infer(self) -> None:
        """Run one inference and wait for it; outputs stay where the engine puts them."""
