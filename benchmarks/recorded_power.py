"""What reading power as ``passsearch`` does makes of recorded GPUs: ``python benchmarks/recorded_power.py``.

Prints the table of ``docs/measurement.md``: of every card in ``recordings/`` power under load, at rest, and the ratio
of the two, by a meter in its power cables and by the median over windows as ``tune`` and ``compare`` lay them, of what
the driver says of now (read where it says that) and of what it has averaged.
"""

import csv
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from passsearch.measure import Trace, consumption
from passsearch.measure.telemetry import PERIOD_S, Reading, Span
from passsearch.measure.windows import WindowPlan

RECORDINGS = Path(__file__).parent / "recordings"
LOADS_S = {"a100": 5.970, "rtx3090": 5.929, "rtx4090": 5.981, "a5000": 5.968}
"""How long the load lasts, which begins at 0; afterwards the card rests as long."""


@dataclass(frozen=True)
class Recording:
    """One card.

    Attributes:
        rows: ``time_s``, ``temperature_c``, ``clock_mhz``, ``power_w`` and ``instant_w``, wherever one changed.
        cables: ``time_s`` and mean ``power_w`` of the 0.1 s from then on, in its cables.
        load_s: How long it is under load.
    """

    rows: list[dict[str, float]]
    cables: list[dict[str, float]]
    load_s: float

    def at(self, time_s: float) -> dict[str, float]:
        """What the card says at a moment."""
        return self.rows[max(0, bisect_right(self.rows, time_s, key=lambda row: row["time_s"]) - 1)]

    def by_cables(self, span: Span) -> float:
        """The meter's mean power in watts."""
        begin_s, end_s = span
        return fmean(row["power_w"] for row in self.cables if begin_s <= row["time_s"] <= end_s - 0.1)

    @property
    def spans(self) -> tuple[Span, Span]:
        """Windows of the load and of the rest after it, each after the card has settled."""
        settle_s = WindowPlan().settle_s
        return (settle_s, self.load_s), (self.load_s + settle_s, 2 * self.load_s)


def load(card: str) -> Recording:
    """From the folder ``recordings``."""
    return Recording(_rows(RECORDINGS / f"{card}.csv"), _rows(RECORDINGS / f"{card}_cables.csv"), LOADS_S[card])


def _rows(file: Path) -> list[dict[str, float]]:
    with file.open(newline="") as lines:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(lines)]


def medians(recording: Recording, reading: str) -> tuple[float, float]:
    """Watts under load and at rest, by ``power_w`` or ``instant_w``."""
    times = [place * PERIOD_S for place in range(int(2 * recording.load_s / PERIOD_S) + 1)]
    trace = Trace([Reading(moment, power_w=recording.at(moment)[reading]) for moment in times])
    windows: list[dict[str, Any]] = [
        {"artifact": place, "turn": 0, "span": span, "inferences": 1} for place, span in enumerate(recording.spans)
    ]
    under_load, at_rest = (each["power_w"]["median"] for each in consumption(windows, trace))
    return under_load, at_rest


def main() -> None:
    """Print the table."""
    print("| card | by its cables | by the driver, now | by the driver, averaged |")
    print("|---|---|---|---|")
    for card in LOADS_S:
        recording = load(card)
        under_load, at_rest = map(recording.by_cables, recording.spans)
        found = [(under_load, at_rest), medians(recording, "instant_w"), medians(recording, "power_w")]
        print(f"| {card} |", *(f"{high:.0f} / {low:.0f} W = {high / low:.2f} |" for high, low in found))


if __name__ == "__main__":
    main()
