"""What the user said beside the network itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from passsearch.core import DeclaredInput, TensorType, settle

LINE = 240


@dataclass(frozen=True)
class Asked:
    """What every front end is asked with.

    Attributes:
        source: What was typed, or the type of the object.
        inputs: Types by input name.
        batch: Size of the first dimension.
        folder: Where files made from objects are kept.
        example_inputs: What a module or block is run with to see what it does.
        formats: Those that the compiler imports, where a front end has a choice; empty for all.
    """

    source: str
    inputs: Mapping[str, TensorType]
    batch: int | None
    folder: Path
    example_inputs: object = None
    formats: frozenset[str] = frozenset()

    def settle(self, declared: Iterable[DeclaredInput]) -> dict[str, TensorType]:
        """Every declared input in order, open dimensions bound by what was said.

        Raises:
            UserError: An input is unknown, does not fit or stays open.
        """
        return settle(tuple(declared), given=self.inputs, batch=self.batch)


def first_line(error: BaseException) -> str:
    """What an error of a framework says, in one line that fits a terminal."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= LINE else line[: LINE - 1] + "…"
