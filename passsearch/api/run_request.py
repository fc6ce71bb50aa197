"""What ``bench RUN`` measures: the winner of a run beside TVM's default and the engines that the user has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passsearch.api.common import is_of, run_folder
from passsearch.api.rivals import RIVALS
from passsearch.engines import installed_engines
from passsearch.errors import UserError
from passsearch.frontends import ModelFile
from passsearch.store import read_result


@dataclass(frozen=True)
class RunRequest:
    """What a call of ``bench`` measures.

    Attributes:
        model: The network: see ``bench``.
        engines: Names of engines, and ``TOOLCHAIN:PIPELINE`` for TVM.
        batch: Batch size; ``None`` for the network's own.
        recorded: The network of the run, as its result has it; ``None`` where the call names no run.
    """

    model: object
    engines: Sequence[str]
    batch: int | None
    recorded: Mapping[str, Any] | None = None

    def check(self, network: ModelFile) -> None:
        """Raise ``UserError`` for a network or sizes that are not those of the run."""
        if self.recorded is not None and not is_of(self.recorded, network):
            raise UserError(
                f"`{self.model}` is another network now than in the run, or has other sizes; give the sizes of the run "
                "by `inputs` and `batch`, or search again."
            )


def make_run_request(model: object, engines: Sequence[str], python: Path | None, batch: int | None) -> RunRequest:
    """Return the network, the engines and the batch size that a call of ``bench`` asks for.

    Where the model is the folder of a run, the network and the batch size are those of the run. Without engines, they
    are then the winner, the baseline and the installed rivals.

    Args:
        model: The folder of a run, or a network, which is returned as it is.
        engines: The engines that the user names; empty for the default.
        python: The interpreter whose engines count as installed; ``None`` for this one.
        batch: The batch size that the user gives; ``None`` for that of the run or the network.
    """
    folder = run_folder(model) if isinstance(model, str | Path) else None
    if folder is None:
        return RunRequest(model, engines, batch)
    result = read_result(folder)
    recorded = result["model"]
    if not engines:
        toolchain, default = result["toolchain"]["name"], result["baseline"]["name"]
        rivals = [each.name for each in installed_engines(RIVALS, Path(), python=python)]
        engines = [f"{toolchain}:{folder}", f"{toolchain}:{default}", *rivals]
    return RunRequest(recorded["source"], engines, recorded.get("batch") if batch is None else batch, recorded)
