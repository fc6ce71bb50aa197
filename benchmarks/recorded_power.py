"""What reading power as ``passsearch`` does makes of recorded GPUs: ``python benchmarks/recorded_power.py``.

Prints the table of ``docs/measurement.md``: power of the cards in ``recordings/`` by a meter in their cables and by the
driver, as medians over windows as ``tune`` and ``compare`` lay them, and what the driver says before it has settled.
"""

import csv
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from statistics import median
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
        rows: ``time_s``, ``temperature_c``, ``clock_mhz``, ``power_w`` and mostly ``instant_w``, wherever one changed.
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
        """The meter's median power in watts."""
        begin_s, end_s = span
        return median(row["power_w"] for row in self.cables if begin_s <= row["time_s"] <= end_s - 0.1)

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


def windows(recording: Recording) -> list[dict[str, Any]]:
    """The load and the rest after it as two artifacts."""
    return [{"artifact": place, "turn": 0, "span": span, "inferences": 1} for place, span in enumerate(recording.spans)]


def medians(recording: Recording) -> tuple[float, float]:
    """Watts under load and at rest by the driver."""
    times = [place * PERIOD_S for place in range(int(2 * recording.load_s / PERIOD_S) + 1)]
    trace = Trace([Reading(moment, power_w=recording.at(moment)["power_w"]) for moment in times])
    under_load, at_rest = (each["power_w"]["median"] for each in consumption(windows(recording), trace))
    return under_load, at_rest


def main() -> None:
    """Print the table."""
    print("| card | load, by its cables | by the driver | rest, by its cables | by the driver | load, after 0.5 s |")
    print("|---|---|---|---|---|---|")
    for card in LOADS_S:
        recording = load(card)
        true, read = map(recording.by_cables, recording.spans), medians(recording)
        shown = [value for pair in zip(true, read, strict=True) for value in pair]
        print(f"| {card} |", *(f"{watts:.0f} W |" for watts in (*shown, recording.at(0.5)["power_w"])))


if __name__ == "__main__":
    main()
