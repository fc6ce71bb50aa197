"""Inference engines side by side: an adapter for each, a worker that serves one of them, the rounds that time them.

Workers import this package in interpreters that have an engine and numpy, so its names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passsearch.engines.batch_scaling import friction_coefficient, friction_rows
    from passsearch.engines.client import EngineFailure, EngineSpec
    from passsearch.engines.contract import KernelCall, fastest_calls
    from passsearch.engines.engine_table import (
        UNAVAILABLE,
        Declaration,
        declarations,
        engine_environment,
        engine_environments,
        engine_findings,
        engine_spec,
        install_version,
        installed_engines,
        unknown_engine_error,
    )
    from passsearch.engines.records import Comparison, EnginePlan, EngineRecord
    from passsearch.engines.rounds import LEAST_ROUNDS, EngineTiming, compare
    from passsearch.engines.rows import by_process, engine_row, mean_latency, rows_by_engine, throughput_ratio

_MODULES = {
    "client": ("EngineFailure", "EngineSpec"),
    "contract": ("KernelCall", "fastest_calls"),
    "engine_table": (
        "UNAVAILABLE",
        "Declaration",
        "declarations",
        "engine_environment",
        "engine_environments",
        "engine_findings",
        "engine_spec",
        "install_version",
        "installed_engines",
        "unknown_engine_error",
    ),
    "batch_scaling": ("friction_coefficient", "friction_rows"),
    "records": ("Comparison", "EnginePlan", "EngineRecord"),
    "rounds": ("LEAST_ROUNDS", "EngineTiming", "compare"),
    "rows": ("by_process", "engine_row", "mean_latency", "rows_by_engine", "throughput_ratio"),
}

__all__ = [
    "LEAST_ROUNDS",
    "UNAVAILABLE",
    "Comparison",
    "Declaration",
    "EngineFailure",
    "EnginePlan",
    "EngineRecord",
    "EngineSpec",
    "EngineTiming",
    "KernelCall",
    "by_process",
    "compare",
    "declarations",
    "engine_environment",
    "engine_environments",
    "engine_findings",
    "engine_row",
    "engine_spec",
    "fastest_calls",
    "friction_coefficient",
    "friction_rows",
    "install_version",
    "installed_engines",
    "mean_latency",
    "rows_by_engine",
    "throughput_ratio",
    "unknown_engine_error",
]


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
