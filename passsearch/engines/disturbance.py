"""What else the machine did while engines ran."""

from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.measure.rounds import FOREIGN_LIMIT, STEAL_LIMIT


@dataclass(frozen=True)
class Turn:
    """Times of the cores during one turn of an engine.

    Attributes:
        total_s: Time of all its cores.
        foreign_s: Time in which other processes used these cores.
        stolen_s: Time that the host took.
        energy_j: Energy that the device used; ``None`` without a meter.
    """

    total_s: float
    foreign_s: float
    stolen_s: float
    energy_j: float | None = None


@dataclass(frozen=True)
class Disturbance:
    """Shares of the cores that others took while engines ran.

    Attributes:
        foreign: Share that other processes took.
        steal: Share that the host of a virtual machine took.
    """

    foreign: float
    steal: float

    @classmethod
    def over(cls, turns: Sequence[Turn]) -> "Disturbance":
        """Return the shares over several turns."""
        total_s = sum(turn.total_s for turn in turns) or 1.0
        foreign_s, stolen_s = sum(turn.foreign_s for turn in turns), sum(turn.stolen_s for turn in turns)
        return cls(round(foreign_s / total_s, 4), round(stolen_s / total_s, 4))

    @property
    def excess(self) -> float:
        """Excess over the limits of passsearch's own measurements; 0 for an undisturbed round."""
        return max(self.foreign / FOREIGN_LIMIT, self.steal / STEAL_LIMIT, 1.0) - 1.0
