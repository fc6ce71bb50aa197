"""Test one catalog entry with a compiler: it exists, its arguments bind, its opt level is right, and it runs.

The ``check_entry`` function of every dialect uses this code. It runs in a worker, one request per entry, because a pass
may crash the whole process. Only the dialects import the compiler.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm

from passsearch.core import Json
from passsearch.dialects.contract import Module
from passsearch.dialects.shared import APPLY_LEVEL, error_line, load_function

Transform: TypeAlias = Any
PassFactory: TypeAlias = Callable[..., Transform]


@dataclass(frozen=True)
class PassCase:
    """A network to test a pass on, with the effect the pass must have.

    Attributes:
        network: Builds a network that has the features the pass is for.
        prerequisites: Passes to apply first: names in the compiler's own pass module, or ``module:function``.
        must_change: True if the pass must change that network.
        can_run: False for a pass that can only be constructed here.
    """

    network: Callable[[], Any]
    prerequisites: tuple[str, ...] = ()
    must_change: bool = True
    can_run: bool = True


class EntryCheck(ABC):
    """Builds networks and applies passes to them in one dialect.

    Attributes:
        transforms: Module of the compiler's own passes.
        errors: Exceptions that a pass may raise.
        cases: The case of each pass, by name.
        default_case: The case of every other pass.
    """

    transforms: str
    errors: tuple[type[Exception], ...]
    cases: Mapping[str, PassCase]
    default_case: PassCase

    def __init__(self, target: str) -> None:
        self._target = self.target(target)

    @classmethod
    def check_entry(
        cls,
        name: str,
        *,
        factory: str,
        arguments: Sequence[Mapping[str, Json]],
        opt_level: int,
        target: str = "llvm",
    ) -> list[str]:
        """Return the problems of one entry, one sentence each; empty if the entry is right.

        Args:
            name: The pass; selects its case.
            factory: ``module:function``.
            arguments: The sets of arguments to bind and run, the defaults first.
            opt_level: The opt level that the entry claims.
            target: Target in scope while passes run.
        """
        case = cls.cases.get(name, cls.default_case)
        return cls(target).problems(case, factory=factory, arguments=arguments, opt_level=opt_level)

    @abstractmethod
    def target(self, text: str) -> Any:
        """Return the compiler's target object."""

    @abstractmethod
    def make_module(self, network: Any) -> Module:
        """Return the IR of a network that a ``PassCase`` built."""

    @abstractmethod
    def apply(self, transform: Transform, module: Module) -> Module:
        """Return the IR after a pass; the pass works on a copy, because some passes change their argument."""

    @abstractmethod
    def hash(self, module: Module) -> int:
        """Return the compiler's hash."""

    @abstractmethod
    def equal(self, left: Module, right: Module) -> bool:
        """Return the compiler's equality."""

    def problems(
        self, case: PassCase, *, factory: str, arguments: Sequence[Mapping[str, Json]], opt_level: int
    ) -> list[str]:
        """Return the problems of one entry on one case."""
        try:
            make = load_function(factory)
        except self.errors + (ImportError,) as error:  # noqa: RUF005, mypy
            return [f"factory `{factory}` does not exist here: {error_line(error)}"]
        problems: list[str] = []
        is_changed = False
        for bound in arguments:
            # Some passes read the target or the context's opt level when they are constructed.
            with self._target, tvm.transform.PassContext(opt_level=APPLY_LEVEL):
                more, changes = self._try(make, bound, case=case, opt_level=opt_level)
            problems += [problem for problem in more if problem not in problems]
            is_changed = is_changed or changes
        # One set of arguments with an effect is enough: another may rightly turn the pass off.
        if case.must_change and not is_changed and not problems:
            problems.append("changes nothing on a network made for it")
        return problems

    def _try(
        self, make: PassFactory, bound: Mapping[str, Json], *, case: PassCase, opt_level: int
    ) -> tuple[list[str], bool]:
        """Return the problems with one set of arguments, and True if the pass changed the network."""
        shown = ", ".join(f"{key}={value!r}" for key, value in bound.items()) or "its defaults"
        module = self._prepare(case)
        before = self.hash(module)
        try:
            transform = make(**bound)
            level = int(transform.info.opt_level)
        except self.errors as error:
            return [f"does not make a pass of {shown}: {error_line(error)}"], False
        problems = [] if level == opt_level else [f"has opt_level {level} in this TVM, not {opt_level}"]
        if not case.can_run:
            return problems, False
        try:
            after = self.apply(transform, module)
        except self.errors as error:
            return [*problems, f"fails with {shown}: {error_line(error)}"], False
        # Functions are shared between the copy and the original: a pass that edits one corrupts other states.
        if self.hash(module) != before:
            problems.append(f"with {shown} changes the functions it is given, which other passes are given as well")
        return problems, not self.equal(module, after)

    def _prepare(self, case: PassCase) -> Module:
        """Return the network of a case after its prerequisite passes."""
        module = self.make_module(case.network())
        for name in case.prerequisites:
            factory = name if ":" in name else f"{self.transforms}:{name}"
            module = self.apply(load_function(factory)(), module)
        return module
