"""Search compiler pass selection and order for a neural network on fixed hardware, and prove the result.

Names load on first use: ``import passsearch`` costs milliseconds and workers never load what they do not need.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passsearch.api import (
        CompiledNetwork,
        InputError,
        TuneResult,
        ablate,
        analyze,
        apply,
        audit,
        bench,
        catalog_entry,
        check_space,
        compare,
        compile,  # noqa: A004
        explore,
        load,
        load_pipeline,
        pipeline,
        profile,
        recommend,
        regress,
        reproduce,
        session,
        try_kernel,
        tune,
    )

__all__ = [
    "CompiledNetwork",
    "InputError",
    "TuneResult",
    "__version__",
    "ablate",
    "analyze",
    "apply",
    "audit",
    "bench",
    "catalog_entry",
    "check_space",
    "compare",
    "compile",
    "explore",
    "load",
    "load_pipeline",
    "pipeline",
    "profile",
    "recommend",
    "regress",
    "reproduce",
    "session",
    "try_kernel",
    "tune",
]
__version__ = "0.1.0"

# A library does not print log records on its own: the application decides where they go.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> object:
    # A worker imports this package inside an environment that has TVM but not optuna, so `passsearch.api` may not
    # be imported before one of its names is used.
    if name in __all__:
        return getattr(import_module("passsearch.api"), name)
    raise AttributeError(f"module `passsearch` has no attribute `{name}`")


def __dir__() -> list[str]:
    return sorted(__all__)
