"""What the catalog knows: passes, their parameters, named sequences, and how to find them."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from passsearch.core import BuildOptions, Candidate, Json, PassSpec, Pipeline
from passsearch.errors import UserError

PARAMETER_TYPES = ("bool", "int", "float", "str", "list", "mapping")
NUMERICS = ("exact", "reassociates", "approximate")
DEVICES = ("cpu", "gpu")
ROLES = ("candidate", "additional", "excluded")
PAPER_CATEGORIES = ("BL", "RN", "MN", "SSD", "BR", "AD")
EVERY_CLASS = "all"
UNKNOWN_CLASS = "unknown"


@dataclass(frozen=True)
class Parameter:
    """One argument of a pass.

    Attributes:
        name: As the factory spells it.
        type: One of ``PARAMETER_TYPES``.
        required: The factory has no default for it.
        default: The factory's default; ``None`` also where it is required.
        alternatives: The values a search tries; empty leaves the default.
        choices: Every value the compiler accepts, where they are few; empty means any of the type.
        example: A value that binds, for checks of a required parameter with nothing to try.
        meaning: What it changes.
    """

    name: str
    type: str
    required: bool = False
    default: Json = None
    alternatives: tuple[Json, ...] = ()
    choices: tuple[Json, ...] = ()
    example: Json = None
    meaning: str = ""

    @property
    def allowed(self) -> str:
        """The values it takes, in words."""
        if self.choices:
            return " | ".join(f"`{choice}`" for choice in self.choices)
        nullable = " or null" if self.default is None and not self.required else ""
        return f"{self.type}{nullable}"


@dataclass(frozen=True)
class Need:
    """A pass that must stand earlier for another to be valid or to have anything to do.

    Attributes:
        name: The needed pass.
        when: Features that make it necessary, one is enough; none means always.
    """

    name: str
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogEntry:
    """One pass as its dialect's compiler offers it.

    Attributes:
        name: As pipelines spell it.
        summary: What it does, in one sentence.
        factory: ``module:function``; called with the bound arguments it returns the compiler's pass.
        parameters: Arguments of the factory, in its order.
        opt_level: The level from which the compiler itself would run the pass; 0 also where it never does.
        needs: Passes that must come earlier.
        conflicts: Passes after which this one is invalid or finds nothing left to do.
        numerics: ``exact``, ``reassociates`` (rounding only) or ``approximate``, which the user's tolerance is for.
        tolerance: Relative difference of outputs it may cause; 0 where it is exact.
        features: Features of which at least one must be present for the pass to change anything.
        paper: Categories of the paper's table 4, empty if it is not in there.
        contradicted: By category of the paper that measurements speak against, the evidence.
        classes: Architecture classes it is a candidate for; ``all`` stands for every one.
        role: ``candidate``, ``additional`` (the user must ask for it) or ``excluded``.
        reason: Why it is not a candidate, or what to know of it.
        repeat: How often it may usefully stand in one sequence.
        unbounded: Again and again, with others in between, it makes ever larger IRs, so that a space with it never
            closes; it is explored only on request, and by a search from the best states.
        phases: Where on the IR's way to code it may stand, as the dialect names that; empty means anywhere. Elsewhere
            it changes nothing.
        devices: Of ``DEVICES``, those it does anything for; empty means all.
        tvm: Version range, such as ``>=0.8,<0.20``.
        source: File of the compiler's source tree.
        origin: The catalog file that declares it.
    """

    name: str
    summary: str
    factory: str
    opt_level: int
    parameters: tuple[Parameter, ...] = ()
    needs: tuple[Need, ...] = ()
    conflicts: tuple[str, ...] = ()
    numerics: str = "exact"
    tolerance: float = 0.0
    features: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()
    contradicted: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = (EVERY_CLASS,)
    role: str = "candidate"
    reason: str = ""
    repeat: int = 1
    unbounded: bool = False
    phases: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tvm: str = ""
    source: str = ""
    origin: str = ""

    def parameter(self, name: str) -> Parameter:
        """One parameter by name.

        Raises:
            UserError: The pass has no such parameter; names those it has.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        if name in known:
            return known[name]
        has = f"it takes {', '.join(f'`{each}`' for each in known)}" if known else "it takes none"
        raise UserError(
            f"Unknown parameter `{name}` of pass `{self.name}`; {nearest(name, known) or has + '.'} "
            f"See: passsearch catalog show {self.name}"
        )

    def variants(self) -> tuple[PassSpec, ...]:
        """The specs a search tries: every combination of alternatives, defaults left unbound."""
        searched = [parameter for parameter in self.parameters if parameter.alternatives]
        combinations = product(*(parameter.alternatives for parameter in searched))
        return tuple(
            PassSpec.of(
                self.name,
                **{
                    parameter.name: value
                    for parameter, value in zip(searched, values, strict=True)
                    if parameter.required or not same_value(value, parameter.default)
                },
            )
            for values in combinations
        )

    def samples(self) -> tuple[dict[str, Json], ...]:
        """Arguments for a check: the factory's defaults, then every alternative of each parameter."""
        plain = {each.name: _sample(each) for each in self.parameters if each.required}
        others = [{**plain, parameter.name: value} for parameter in self.parameters for value in parameter.alternatives]
        return (plain, *(each for each in others if each != plain))

    def missing_before(self, earlier: Collection[str], present: Collection[str]) -> tuple[str, ...]:
        """Needed passes that do not stand among ``earlier``, given the network's ``present`` features."""
        return tuple(
            need.name
            for need in self.needs
            if need.name not in earlier and (not need.when or not set(need.when).isdisjoint(present))
        )

    def supports(self, tvm_version: str) -> bool:
        """Whether a compiler of this version has the pass."""
        version = release(tvm_version)
        return all(_holds(version, clause) for clause in self.tvm.split(",") if clause)


@dataclass(frozen=True)
class NamedSequence:
    """A pipeline with a name, such as the paper's ``AS-0``.

    Attributes:
        name: As ``compare --pipelines`` takes it.
        summary: What it stands for.
        pipeline: Its passes in order.
        build: Options of the build after them.
        tried: Whether a search tries it first; others are there to be compared with.
        source: Where it comes from.
        origin: The catalog file that declares it.
    """

    name: str
    summary: str
    pipeline: Pipeline
    build: BuildOptions = field(default_factory=BuildOptions)
    tried: bool = True
    source: str = ""
    origin: str = ""

    def candidate(self) -> Candidate:
        """The sequence as a candidate of that name."""
        return Candidate(self.pipeline, self.build, self.name)


@dataclass(frozen=True)
class Catalog:
    """Everything known of one dialect.

    Attributes:
        dialect: Its name.
        entries: Passes by name.
        sequences: Named sequences by name.
        rules: The classes' rules as written; ``passsearch.analysis`` reads them.
    """

    dialect: str
    entries: Mapping[str, CatalogEntry] = field(default_factory=dict)
    sequences: Mapping[str, NamedSequence] = field(default_factory=dict)
    rules: tuple[Mapping[str, Json], ...] = ()

    def entry(self, name: str) -> CatalogEntry:
        """One pass by name.

        Raises:
            UserError: No such pass; offers the nearest name.
        """
        if name in self.entries:
            return self.entries[name]
        raise UserError(self._unknown("pass", name, known=self.entries))

    def sequence(self, name: str) -> NamedSequence:
        """One named sequence.

        Raises:
            UserError: No such sequence; offers the nearest name.
        """
        if name in self.sequences:
            return self.sequences[name]
        raise UserError(self._unknown("sequence", name, known=self.sequences))

    def approximates(self, candidate: Candidate) -> bool:
        """Whether a pass of it may change numerics: of its pipeline, or one its build runs by itself.

        What a build runs at level 0 it does to the reference too. A pass the catalog does not know may do anything.
        """
        build = candidate.build
        asked = {*(step.name for step in candidate.pipeline.passes), *build.required}
        own = {name for name, entry in self.entries.items() if 0 < entry.opt_level <= build.opt_level}
        return any(
            name not in self.entries or self.entries[name].numerics == "approximate"
            for name in asked | (own - {*build.disabled})
        )

    def _unknown(self, what: str, name: str, *, known: Iterable[str]) -> str:
        hint = nearest(name, known)
        known_as = f"; {hint}" if hint else "."
        return f"Unknown {what} `{name}` in dialect `{self.dialect}`{known_as} See: passsearch catalog list"


def _sample(parameter: Parameter) -> Json:
    return parameter.alternatives[0] if parameter.alternatives else parameter.example


def nearest(name: str, known: Iterable[str]) -> str:
    """``did you mean `X`?`` for a mistyped name, empty if nothing is near."""
    spellings = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), spellings, n=1)
    return f"did you mean `{spellings[close[0]]}`?" if close else ""


def same_value(left: Json, right: Json) -> bool:
    """Equality that keeps ``True`` and ``1`` apart."""
    return type(left) is type(right) and left == right


def release(version: str) -> tuple[int, ...]:
    """The numbers a version starts with: ``0.16.dev0`` is ``(0, 16)``."""
    matched = re.match(r"\d+(\.\d+)*", version.strip())
    return tuple(int(part) for part in matched.group().split(".")) if matched else ()


def _holds(version: tuple[int, ...], clause: str) -> bool:
    if clause.startswith(">="):
        return version >= release(clause[2:])
    if clause.startswith("<"):
        return version < release(clause[1:])
    return version[: len(release(clause[2:]))] == release(clause[2:])
