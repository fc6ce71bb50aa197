"""Clocks, sensors, statistics and the protocol by which artifacts are timed.

Names load on first use: the worker imports this package where neither psutil nor scipy need be, and starts often.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passsearch.measure.artifact_consumption import CONSUMED, Consumption
    from passsearch.measure.processor import CpuTimes, cache_bytes
    from passsearch.measure.rounds import Cf22Plan, RoundPlan, run_race
    from passsearch.measure.sensors import Sensors, probe
    from passsearch.measure.statistics import (
        LEAST_GAIN,
        LEVEL,
        Ratio,
        cf22_ratio,
        improved,
        least_repetitions,
        log_ratio,
        mean_ratio,
        median_interval,
        median_ratio,
        noise_floor,
        one_process_ratio,
        process_ratio,
        race_critical,
    )
    from passsearch.measure.telemetry import (
        Meter,
        Trace,
        consumed_log_ratio,
        consumption,
        has_consumption,
        recording,
        undisturbed,
    )
    from passsearch.measure.windows import WindowPlan

_ELSEWHERE = {
    "CONSUMED": "artifact_consumption",
    "Consumption": "artifact_consumption",
    "Meter": "telemetry",
    "Trace": "telemetry",
    "WindowPlan": "windows",
    "consumed_log_ratio": "telemetry",
    "consumption": "telemetry",
    "has_consumption": "telemetry",
    "recording": "telemetry",
    "undisturbed": "telemetry",
    "cache_bytes": "processor",
    "Cf22Plan": "rounds",
    "CpuTimes": "processor",
    "run_race": "rounds",
    "RoundPlan": "rounds",
    "Sensors": "sensors",
    "probe": "sensors",
}

__all__ = [
    "CONSUMED",
    "LEAST_GAIN",
    "LEVEL",
    "Cf22Plan",
    "Consumption",
    "CpuTimes",
    "Meter",
    "Ratio",
    "RoundPlan",
    "Sensors",
    "Trace",
    "WindowPlan",
    "cache_bytes",
    "cf22_ratio",
    "consumed_log_ratio",
    "consumption",
    "has_consumption",
    "improved",
    "least_repetitions",
    "log_ratio",
    "mean_ratio",
    "median_interval",
    "median_ratio",
    "noise_floor",
    "one_process_ratio",
    "probe",
    "process_ratio",
    "race_critical",
    "recording",
    "run_race",
    "undisturbed",
]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'statistics')}"), name)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
