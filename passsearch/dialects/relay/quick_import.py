"""Imports TVM without SciPy's statistics; every process that serves the bridge imports this module first.

TVM's quantization in some builds imports ``scipy.stats`` with itself. That is two fifths of a worker's start,
and only that quantization needs it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

STATISTICS = "scipy.stats"


class _Statistics(ModuleType):
    """Stands for SciPy's statistics in the modules of TVM, and imports them when one is used."""

    def __getattr__(self, name: str) -> Any:
        # Python asks modules for special names while it imports them.
        if name.startswith("__"):
            raise AttributeError(name)
        _remove()
        return getattr(import_module(STATISTICS), name)


def _remove() -> None:
    if isinstance(sys.modules.get(STATISTICS), _Statistics):
        del sys.modules[STATISTICS]


if STATISTICS not in sys.modules:
    sys.modules[STATISTICS] = _Statistics(STATISTICS)
    try:
        import tvm.relay  # noqa: F401
    finally:
        _remove()
