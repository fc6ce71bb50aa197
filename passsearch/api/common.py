"""What every call is asked in the same words: a network, a toolchain, where news goes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from passsearch.core import Objective, TensorType
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate import Evaluator, Session
from passsearch.frontends import ModelFile, resolve
from passsearch.store import Log, open_fact_cache
from passsearch.toolchain import cache_folder, get_toolchain

Progress: TypeAlias = Callable[[str, int, int], None]
"""Told what is under way, how many candidates are evaluated and how many will be."""


def network(
    model: object,
    example_inputs: object,
    *,
    inputs: Mapping[str, TensorType] | None,
    batch: int | None,
    toolchain: str | None,
) -> ModelFile:
    """The model file of whatever the user hands over, in a format the toolchain imports where there is a choice."""
    return resolve(
        model,
        example_inputs=example_inputs,
        inputs=inputs,
        batch=batch,
        folder=cache_folder() / "models",
        formats=dialect(get_toolchain(toolchain).dialect).formats,
    )


def paths(catalogs: Sequence[str | Path]) -> list[Path]:
    """As paths."""
    return [Path(path) for path in catalogs]


@contextmanager
def evaluating(chosen: Session, *, remember: bool) -> Iterator[Evaluator]:
    """An evaluator without a run folder; what it finds out goes to the memory, or nowhere."""
    with TemporaryDirectory(prefix="passsearch-") as name, ExitStack() as stack:
        folder = Path(name)
        log = stack.enter_context(Log(folder / "log.jsonl"))
        memory = stack.enter_context(open_fact_cache(chosen.memory)) if remember else None
        evaluator = chosen.evaluator(log, folder, memory=memory)
        stack.callback(evaluator.close)
        yield evaluator


def refuse_unreadable(objectives: Sequence[Objective], chosen: Session) -> None:
    """An objective nothing can read is refused before anything starts."""
    metrics = {"power": "power_w", "energy": "energy_j"}
    for objective in objectives:
        if chosen.idle and objective.name != "compile_time":
            raise UserError(
                f"Objective `{objective.name}` cannot be read for `{chosen.target}`: {chosen.idle}; compile_time can."
            )
        reason = chosen.sensors.unavailable.get(metrics.get(objective.name, ""))
        if reason:
            raise UserError(f"Objective `{objective.name}` cannot be read on `{chosen.device}`: {reason}.")


def silent(_: str, __: int, ___: int) -> None:
    """Progress nobody asked for."""
