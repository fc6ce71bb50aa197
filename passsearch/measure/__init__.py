"""Clocks, sensors, statistics, and the processes that hold a compiler."""

from passsearch.measure.launcher import Worker
from passsearch.measure.replay import replay
from passsearch.measure.sensors import Sensors, probe
from passsearch.measure.statistics import (
    LEAST_GAIN,
    LEVEL,
    Ratio,
    clustered_ratio,
    improved,
    log_ratios,
    median_interval,
    noise_floor,
    paired_ratio,
)

__all__ = [
    "LEAST_GAIN",
    "LEVEL",
    "Ratio",
    "Sensors",
    "Worker",
    "clustered_ratio",
    "improved",
    "log_ratios",
    "median_interval",
    "noise_floor",
    "paired_ratio",
    "probe",
    "replay",
]
