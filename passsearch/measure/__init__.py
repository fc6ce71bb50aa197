"""Clocks, sensors, statistics, and the processes that hold a compiler."""

from passsearch.measure.launcher import Worker
from passsearch.measure.replay import replay
from passsearch.measure.sensors import Sensors, probe
from passsearch.measure.statistics import (
    LEAST_GAIN,
    LEVEL,
    Ratio,
    better_placed,
    cf22_ratio,
    improved,
    least_repetitions,
    log_ratios,
    mean_ratio,
    median_interval,
    median_ratio,
    noise_floor,
    paired_ratio,
    process_ratio,
    race_critical,
)

__all__ = [
    "LEAST_GAIN",
    "LEVEL",
    "Ratio",
    "Sensors",
    "Worker",
    "better_placed",
    "cf22_ratio",
    "improved",
    "least_repetitions",
    "log_ratios",
    "mean_ratio",
    "median_interval",
    "median_ratio",
    "noise_floor",
    "paired_ratio",
    "probe",
    "process_ratio",
    "race_critical",
    "replay",
]
