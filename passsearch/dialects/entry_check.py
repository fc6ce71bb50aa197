"""Hold one catalog entry against a compiler: it exists, its arguments bind, its level is right, it runs.

What every dialect's ``check_entry`` has in common. It runs in a worker, one request per entry, because a pass may take
the whole process with it; the compiler itself is imported by the dialect only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from passsearch.core import Json
from passsearch.dialects.contract import Module

Transform: TypeAlias = Any
Make: TypeAlias = Callable[..., Transform]


@dataclass(frozen=True)
class Trial:
    """What a pass is tried on.

    Attributes:
        network: Builds a network that has the features the pass is for.
        before: Passes applied first: names in the dialect's own module of them, or ``module:function``.
        effect: Whether the pass must change that network.
        runs: False where the pass can only be made.
    """

    network: Callable[[], Any]
    before: tuple[str, ...] = ()
    effect: bool = True
    runs: bool = True


class EntryCheck(ABC):
    """One dialect's way to make networks and to apply passes to them.

    Attributes:
        passes: Module of the compiler's own passes.
        faults: What a pass that fails may raise.
    """

    passes: str
    faults: tuple[type[Exception], ...]

    @abstractmethod
    def scope(self) -> AbstractContextManager[object]:
        """What passes are made and run in."""

    @abstractmethod
    def module(self, network: Any) -> Module:
        """The IR of a trial's network."""

    @abstractmethod
    def applied(self, transform: Transform, module: Module) -> Module:
        """The IR after a pass; the pass works on a copy, as some change what they are given."""

    @abstractmethod
    def hash(self, module: Module) -> int:
        """The compiler's hash."""

    @abstractmethod
    def equal(self, left: Module, right: Module) -> bool:
        """The compiler's equality."""

    def problems(
        self, trial: Trial, *, factory: str, arguments: Sequence[Mapping[str, Json]], opt_level: int
    ) -> list[str]:
        """Problems of one entry, each in a sentence; none if it holds.

        Args:
            trial: What it is tried on.
            factory: ``module:function``.
            arguments: Each set of arguments to bind and run, the defaults first.
            opt_level: The level the entry claims.
        """
        try:
            make = _find(factory)
        except self.faults + (ImportError,) as error:  # noqa: RUF005, mypy
            return [f"factory `{factory}` does not exist here: {_line(error)}"]
        problems, changed = [], False
        for bound in arguments:
            with self.scope():
                found, effect = self._try(make, bound, trial=trial, opt_level=opt_level)
            problems += [problem for problem in found if problem not in problems]
            changed = changed or effect
        if trial.effect and not changed and not problems:
            problems.append("changes nothing on a network made for it")
        return problems

    def _try(self, make: Make, bound: Mapping[str, Json], *, trial: Trial, opt_level: int) -> tuple[list[str], bool]:
        """Problems with one set of arguments, and whether the pass changed the network."""
        shown = ", ".join(f"{key}={value!r}" for key, value in bound.items()) or "its defaults"
        module = self._prepared(trial)
        before = self.hash(module)
        try:
            transform = make(**bound)
            level = int(transform.info.opt_level)
        except self.faults as error:
            return [f"does not make a pass of {shown}: {_line(error)}"], False
        problems = [] if level == opt_level else [f"has opt_level {level} in this TVM, not {opt_level}"]
        if not trial.runs:
            return problems, False
        try:
            after = self.applied(transform, module)
        except self.faults as error:
            return [*problems, f"fails with {shown}: {_line(error)}"], False
        if self.hash(module) != before:
            problems.append(f"with {shown} changes the functions it is given, which other passes are given as well")
        return problems, not self.equal(module, after)

    def _prepared(self, trial: Trial) -> Module:
        module = self.module(trial.network())
        for name in trial.before:
            module = self.applied(_find(name if ":" in name else f"{self.passes}:{name}")(), module)
        return module


def _find(factory: str) -> Make:
    home, _, function = factory.partition(":")
    found: Make = getattr(import_module(home), function)
    return found


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][:200]
