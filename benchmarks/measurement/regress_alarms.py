"""How often ``regress`` alarms without a reason, and how often it finds a slowdown: ``python -m
benchmarks.measurement.regress_alarms``.

A comparison draws the noise of its processes from recorded ones, two loads of one binary each, adds a slowdown, and
decides as ``regress`` does: the interval of the first processes, then that of as many further ones. The noise is
centred, so that the truth is known, and also taken several times as large, as on a busier machine.
``regress_alarms.json`` has the shares.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from benchmarks.common import RESULTS, markdown, options, read, today, write
from passsearch.measure import LEVEL
from passsearch.studies.regression import PROCESSES

SOURCE, FILE = RESULTS / "process_noise.json", RESULTS / "regress_alarms.json"
CONDITION = "as it is"
SLOWDOWNS, FACTORS = (0.0, 0.02, 0.03, 0.05, 0.1), (1, 3, 10)
COMPARISONS, IN_A_ROW = 200_000, 40
"""Simulated comparisons of each kind, and comparisons of a version with itself of which none may alarm."""


def main() -> None:
    """Simulate all kinds, write and print the shares."""
    arguments = options(__doc__, comparisons=COMPARISONS, threshold=0.02)
    rows = [
        simulated(name, noise, factor, slowdown, arguments.comparisons, arguments.threshold)
        for name, noise in recorded().items()
        for factor in FACTORS
        for slowdown in SLOWDOWNS
    ]
    about = {"date": today(), "threshold": arguments.threshold, "processes": PROCESSES, "source": SOURCE.name}
    write(FILE, {**about, "comparisons": arguments.comparisons, "rows": rows})
    print(markdown(("noise", "slowdown", "first", "certain", f"any in {IN_A_ROW}"), [*map(_cells, rows)]))


def recorded() -> dict[str, list[float]]:
    """Return the log-ratios of two loads of one binary, by network, without their mean."""
    networks = read(SOURCE)["networks"]
    values = {name: [each["twin"] for each in row["conditions"][CONDITION]] for name, row in networks.items()}
    return {name: [value - fmean(noise) for value in noise] for name, noise in values.items()}


def simulated(
    name: str, noise: Sequence[float], factor: int, slowdown: float, comparisons: int, threshold: float
) -> dict[str, Any]:
    """Return the shares of comparisons whose first interval, and whose both, lie above the threshold."""
    rng = np.random.default_rng(0)
    limit = math.log1p(threshold)
    first, second = (
        _lower_ends(factor * rng.choice(noise, (comparisons, PROCESSES)) + math.log1p(slowdown)) > limit
        for _ in range(2)
    )
    certain = float(np.mean(first & second))
    return {
        "noise": name,
        "deviation": factor * stdev(noise),
        "slowdown": slowdown,
        "first": float(np.mean(first)),
        "certain": certain,
        "any": 1 - (1 - certain) ** IN_A_ROW,
    }


def _lower_ends(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the lower end of Student's t interval of every row, as ``passsearch.measure.mean_ratio`` has it."""
    count = samples.shape[1]
    half = stdtrit(count - 1, (1 + LEVEL) / 2) * samples.std(axis=1, ddof=1) / math.sqrt(count)
    ends: npt.NDArray[np.float64] = samples.mean(axis=1) - half
    return ends


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    shares = (f"{100 * row[key]:.3g} %" for key in ("first", "certain", "any"))
    return f"{row['noise']}, {100 * row['deviation']:.2f} %", f"{100 * row['slowdown']:.0f} %", *shares


if __name__ == "__main__":
    main()
