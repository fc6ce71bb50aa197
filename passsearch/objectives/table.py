"""All objectives, and the objective of a name or of a recorded verdict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from passsearch.errors import UserError
from passsearch.objectives.compile_time import CompileTime
from passsearch.objectives.consumption import Energy, MeteredObjective, Power
from passsearch.objectives.memory import Memory
from passsearch.objectives.objective import Objective
from passsearch.objectives.speed import Latency, Throughput

if TYPE_CHECKING:
    from passsearch.results import Verdict

THROUGHPUT, LATENCY, COMPILE_TIME, MEMORY = Throughput(), Latency(), CompileTime(), Memory()

METERED_OBJECTIVES: tuple[MeteredObjective, ...] = (Power(), Energy())
"""The objectives that a meter reads."""

OBJECTIVES: tuple[Objective, ...] = (THROUGHPUT, LATENCY, COMPILE_TIME, MEMORY, *METERED_OBJECTIVES)


def parse_objective(name: str) -> Objective:
    """Return the objective of that name.

    Raises:
        UserError: No objective has that name; the message lists all names.
    """
    for objective in OBJECTIVES:
        if objective.name == name:
            return objective
    names = ", ".join(objective.name for objective in OBJECTIVES)
    raise UserError(f"Unknown objective `{name}`; choose from: {names}.")


def parse_objectives(objective: str | Sequence[str]) -> tuple[Objective, ...]:
    """Return the one or two objectives of a name, a list of names, or names with a comma between them.

    Raises:
        UserError: There is none, more than two, or one twice, or a name is unknown.
    """
    texts = [objective] if isinstance(objective, str) else objective
    names = [name.strip() for text in texts for name in str(text).split(",")]
    if not 1 <= len(set(names)) == len(names) <= 2:
        raise UserError(f"One objective or two different ones; got {len(names)}: {', '.join(names) or 'none'}.")
    return tuple(parse_objective(name) for name in names)


def recorded_objective(verdict: "Verdict") -> Objective:
    """Return the objective of the verdict of a result."""
    return parse_objective(verdict.objective)
