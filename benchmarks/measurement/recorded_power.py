"""Compares the power that ``passsearch`` reads with a meter in the cables.

``python -m benchmarks.measurement.recorded_power`` prints the table of ``docs/evidence/measurement.md``: the power of
the cards in ``recordings/``, by a meter in their cables and by the driver, as medians over the windows that ``tune``
and ``compare`` use. The last column shows how the driver's average settles: what it reports 0.5, 1 and 1.5 s after the
load starts, as shares of its median under load.
"""

import csv
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import markdown
from passsearch.measure import Trace, consumption
from passsearch.measure.telemetry import PERIOD_S, SensorReading, Span
from passsearch.measure.windows import WindowPlan

RECORDINGS = Path(__file__).parent / "recordings"
LOADS_S = {"a100": 5.970, "rtx3090": 5.929, "rtx4090": 5.981, "a5000": 5.968}
"""Duration of the load, which starts at 0; the card then rests for as long."""


@dataclass(frozen=True)
class Recording:
    """The recording of one card.

    Attributes:
        rows: The driver's values: ``time_s``, ``temperature_c``, ``clock_mhz``, ``power_w`` and on most cards
            ``instant_w``; a row for every change.
        cables: The meter's values: ``time_s`` and the mean ``power_w`` of the 0.1 s that start there.
        load_s: Duration of the load in seconds.
    """

    rows: list[dict[str, float]]
    cables: list[dict[str, float]]
    load_s: float

    def at(self, time_s: float) -> dict[str, float]:
        """Return the driver's values at a moment."""
        return self.rows[max(0, bisect_right(self.rows, time_s, key=lambda row: row["time_s"]) - 1)]

    def cable_power_w(self, span: Span) -> float:
        """Return the median power by the meter in the cables."""
        begin_s, end_s = span
        return median(row["power_w"] for row in self.cables if begin_s <= row["time_s"] <= end_s - 0.1)

    @property
    def spans(self) -> tuple[Span, Span]:
        """The windows under load and at rest; both start after the power has settled."""
        settle_s = WindowPlan().settle_s
        return (settle_s, self.load_s), (self.load_s + settle_s, 2 * self.load_s)


def load(card: str) -> Recording:
    """Load a card's recording from the folder ``recordings``."""
    rows = []
    for name in (card, f"{card}_cables"):
        with (RECORDINGS / f"{name}.csv").open(newline="") as lines:
            rows.append([{key: float(value) for key, value in row.items()} for row in csv.DictReader(lines)])
    return Recording(*rows, LOADS_S[card])


def windows(recording: Recording) -> list[dict[str, Any]]:
    """Return one window for the load and one for the rest, as two artifacts."""
    return [{"artifact": index, "turn": 0, "span": span, "inferences": 1} for index, span in enumerate(recording.spans)]


def driver_power_w(recording: Recording) -> tuple[float, float]:
    """Return the median power under load and at rest by the driver."""
    times = [index * PERIOD_S for index in range(int(2 * recording.load_s / PERIOD_S) + 1)]
    trace = Trace([SensorReading(time_s, power_w=recording.at(time_s)["power_w"]) for time_s in times])
    under_load, at_rest = (artifact.power_w for artifact in consumption(windows(recording), trace))
    assert under_load and at_rest
    return under_load["median"], at_rest["median"]


def main() -> None:
    lines = []
    for card in LOADS_S:
        recording = load(card)
        by_cables, by_driver = map(recording.cable_power_w, recording.spans), driver_power_w(recording)
        cells = [f"{power_w:.0f} W" for pair in zip(by_cables, by_driver, strict=True) for power_w in pair]
        settling = [f"{100 * recording.at(time_s)['power_w'] / by_driver[0]:.0f}" for time_s in (0.5, 1.0, 1.5)]
        lines.append((card, *cells, f"{', '.join(settling)} %"))
    heads = ("load, by its cables", "by the driver", "rest, by its cables", "by the driver", "after 0.5, 1, 1.5 s")
    print(markdown(("card", *heads), lines))


if __name__ == "__main__":
    main()
