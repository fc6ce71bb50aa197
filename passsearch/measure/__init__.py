"""Clocks, sensors, statistics and the protocol that times artifacts."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passsearch.measure.artifact_consumption import Consumption
    from passsearch.measure.classes import class_cases, class_leads, labels_fault
    from passsearch.measure.kernels import PlacePlan, VariantPlan
    from passsearch.measure.outputs import digest
    from passsearch.measure.processor import CpuTimes, cache_bytes
    from passsearch.measure.rounds import Cf22Plan, RoundPlan, is_busy, run_race
    from passsearch.measure.sensors import Sensors, probe
    from passsearch.measure.source import source_outputs
    from passsearch.measure.statistics import (
        LEVEL,
        MIN_GAIN,
        Ratio,
        cf22_ratio,
        is_improvement,
        level_of_looks,
        log_ratio,
        log_ratio_at_end,
        log_ratio_of_medians,
        mean_interval,
        mean_ratio,
        next_value_interval,
        noise_floor,
        one_process_ratio,
        process_ratio,
        race_critical_values,
        ratio_of_medians,
    )
    from passsearch.measure.telemetry import (
        Meter,
        SensorReading,
        Trace,
        consumption,
        drop_disturbed_rounds,
        recording,
    )
    from passsearch.measure.windows import WindowPlan

__all__ = [
    "LEVEL",
    "MIN_GAIN",
    "Cf22Plan",
    "Consumption",
    "CpuTimes",
    "Meter",
    "PlacePlan",
    "Ratio",
    "RoundPlan",
    "SensorReading",
    "Sensors",
    "Trace",
    "VariantPlan",
    "WindowPlan",
    "cache_bytes",
    "cf22_ratio",
    "class_cases",
    "class_leads",
    "consumption",
    "digest",
    "drop_disturbed_rounds",
    "is_busy",
    "is_improvement",
    "labels_fault",
    "level_of_looks",
    "log_ratio",
    "log_ratio_at_end",
    "log_ratio_of_medians",
    "mean_interval",
    "mean_ratio",
    "next_value_interval",
    "noise_floor",
    "one_process_ratio",
    "probe",
    "process_ratio",
    "race_critical_values",
    "ratio_of_medians",
    "recording",
    "run_race",
    "source_outputs",
]


# In order of import time: a name is looked up in the cheap modules first.
_MODULES = (
    "processor",
    "artifact_consumption",
    "telemetry",
    "kernels",
    "rounds",
    "windows",
    "sensors",
    "source",
    "statistics",
    "classes",
    "outputs",
)


# Modules load on first use. The worker imports this package in the toolchain's interpreter, which may lack psutil and
# scipy, which `statistics` imports. A search starts dozens of workers, whose server takes 0.2 s in all to import
# (`python -X importtime`, Python 3.11).
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
