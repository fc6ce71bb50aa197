"""The records of the catalog: passes, their parameters, named sequences, and the look-up by name."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import product

from passsearch.core import EXACT, NARROWING, BuildOptions, Candidate, Json, PassSpec, Pipeline, suggest_name
from passsearch.errors import UserError

PARAMETER_TYPES = ("bool", "int", "float", "str", "list", "mapping")
NUMERICS = ("exact", "reassociates", "approximate")
DEVICES = ("cpu", "gpu")
ROLES = ("candidate", "additional", "excluded")
# The columns of table 4: BL lists passes of -O3, AD additional passes, the others are classes of networks.
PAPER_CATEGORIES = ("BL", "RN", "MN", "SSD", "BR", "AD")
EVERY_CLASS = "all"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a pass.

    Attributes:
        name: Name of the argument of the factory.
        type: One of ``PARAMETER_TYPES``.
        required: True if the factory has no default.
        default: The factory's default; ``None`` also for a required parameter.
        alternatives: The values that a search tries; if empty, a search leaves the default.
        choices: Every value that the compiler accepts, if they are few; empty means any value of the type.
        example: A valid value, for checks of a required parameter without alternatives.
        per_kernel: Values of the pass's other parameters, by name. A search times each kernel with all combinations of
            them and gives it the fastest. The parameter is a mapping from names of kernels to such values.
        regions: ``module:function`` that lists the regions of a network that the pass decides on one by one. The
            parameter is a mapping from names of regions to values.
        region_values: Values that a search tries for each region; the first is that of regions without an entry.
        meaning: The effect of the parameter, in words.
    """

    name: str
    type: str
    required: bool = False
    default: Json = None
    alternatives: tuple[Json, ...] = ()
    choices: tuple[Json, ...] = ()
    example: Json = None
    per_kernel: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    regions: str = ""
    region_values: tuple[Json, ...] = ()
    meaning: str = ""

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return " | ".join(f"`{choice}`" for choice in self.choices)
        nullable = " or null" if self.default is None and not self.required else ""
        return f"{self.type}{nullable}"


@dataclass(frozen=True)
class Need:
    """A prerequisite: a pass that must come earlier for another pass to be valid or to have an effect.

    Attributes:
        name: Name of the prerequisite pass.
        when: Features of a network that make it necessary, one of them is enough; empty means always.
    """

    name: str
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class CatalogEntry:
    """One pass that the compiler of a dialect offers. The attributes are the fields of a catalog file.

    Attributes:
        name: Name of the pass in pipelines.
        summary: One sentence on what the pass does.
        factory: ``module:function``; a call with the bound arguments returns the compiler's pass.
        parameters: Parameters of the factory, in its order.
        opt_level: Lowest level at which the compiler itself runs the pass; 0 also if it never runs the pass.
        needs: Prerequisite passes, which must come earlier.
        conflicts: Passes after which this pass is invalid or has no effect. Samplers and variants do not propose the
            pass there.
        numerics: ``exact``, ``reassociates`` (rounding only) or ``approximate``; the user's tolerance applies to
            approximate passes only.
        tolerance: Relative difference of outputs that the pass may cause; 0 for an exact pass.
        features: Features of a network; at least one of them must be present for the pass to have an effect.
        paper: Categories of the paper's table 4; empty if the table does not list the pass.
        contradicted: Evidence against a category of the paper, by category.
        classes: Architecture classes for which the pass is a candidate; ``all`` means every class.
        role: ``candidate``, ``additional`` (used only on the user's request) or ``excluded``.
        reason: Reason why the pass is not a candidate, or a note for the user.
        before: Passes before which a search inserts this pass into a sequence to decide on regions.
        repeat: Largest useful number of occurrences in one sequence.
        unbounded: True if the pass, repeated with other passes in between, produces ever larger IRs, so that a space
            with it never closes. It is explored only on request; a search applies it to the best states.
        phases: Phases of lowering, by the dialect's names, in which the pass may run; empty means every phase. In
            other phases it changes nothing.
        devices: The ``DEVICES`` for which the pass has an effect; empty means all.
        tvm: Version range, such as ``>=0.8,<0.20``.
        source: File in the compiler's source tree.
        origin: The catalog file that declares the pass.
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
    before: tuple[str, ...] = ()
    repeat: int = 1
    unbounded: bool = False
    phases: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    tvm: str = ""
    source: str = ""
    origin: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the document that ``passsearch catalog show --json`` prints of the pass."""
        return asdict(self)

    def parameter(self, name: str) -> Parameter:
        """Return one parameter by name.

        Raises:
            UserError: The pass has no parameter of that name; the message suggests one or lists them.
        """
        parameters = {parameter.name: parameter for parameter in self.parameters}
        if name in parameters:
            return parameters[name]
        names = ", ".join(f"`{parameter}`" for parameter in parameters) or "none"
        hint = suggest_name(name, parameters) or f"it takes {names}."
        raise UserError(
            f"Unknown parameter `{name}` of pass `{self.name}`; {hint} See: passsearch catalog show {self.name}"
        )

    @property
    def kernel_parameter(self) -> Parameter | None:
        """The parameter that sets others for single kernels; ``None`` if the pass has no such parameter."""
        return next((parameter for parameter in self.parameters if parameter.per_kernel), None)

    @property
    def regional_parameter(self) -> Parameter | None:
        """The parameter that decides on single regions of a network; ``None`` if the pass has no such parameter."""
        return next((parameter for parameter in self.parameters if parameter.regions), None)

    def place_in(self, pipeline: Pipeline) -> int | None:
        """Return the place of the pass in a pipeline, or else where to insert it; ``None`` if it fits nowhere."""
        names = [step.name for step in pipeline.passes]
        return next((names.index(name) for name in (self.name, *self.before) if name in names), None)

    def decide(self, pipeline: Pipeline, values: Mapping[str, Json]) -> Pipeline:
        """Return a pipeline in which the pass, at its place, has these values of regions and no others.

        Args:
            pipeline: A pipeline that the pass fits into.
            values: Values by name of the region.
        """
        place, parameter = self.place_in(pipeline), self.regional_parameter
        assert parameter and place is not None
        # A list has the numbers of the regions that are true.
        is_list = parameter.type == "list"
        argument: Json = [*sorted(int(key) for key, value in values.items() if value)] if is_list else dict(values)
        after = pipeline.passes[place:]
        after = after[1:] if after[0].name == self.name else after
        return Pipeline((*pipeline.passes[:place], PassSpec.of(self.name, **{parameter.name: argument}), *after))

    def kernel_schedule(self, step: PassSpec, kernel: str = "") -> PassSpec:
        """Return the pass as it schedules one kernel.

        Args:
            step: The pass in a pipeline.
            kernel: Name of the kernel; empty for one that the pass does not name.
        """
        parameter, arguments = self.kernel_parameter, dict(step.argument_values)
        settings = arguments.pop(parameter.name, None) if parameter else None
        own = settings.get(kernel, {}) if isinstance(settings, Mapping) else {}
        values = {**arguments, **own} if isinstance(own, Mapping) else arguments
        # ``None`` stands for a default, which the catalog does not write.
        return PassSpec.of(self.name, **{name: value for name, value in values.items() if value is not None})

    def variants(self) -> tuple[PassSpec, ...]:
        """Return the specs that a search tries: every combination of alternatives, without arguments for defaults."""
        free = [parameter for parameter in self.parameters if parameter.alternatives]
        combinations = product(*(parameter.alternatives for parameter in free))
        # With a default as argument, one pass would have two specs, and a search would try both.
        return tuple(
            PassSpec.of(
                self.name,
                **{
                    parameter.name: value
                    for parameter, value in zip(free, values, strict=True)
                    if parameter.required or not same_value(value, parameter.default)
                },
            )
            for values in combinations
        )

    def with_all_choices(self, parameter: str) -> "CatalogEntry":
        """Return the entry with all values of a parameter as alternatives, whose default is the first."""
        own = (replace(each, alternatives=each.choices) if each.name == parameter else each for each in self.parameters)
        return replace(self, parameters=tuple(own))

    def argument_sets(self) -> tuple[dict[str, Json], ...]:
        """Return sets of arguments for a check: the factory's defaults, then every alternative of each parameter."""
        defaults = {parameter.name: _sample(parameter) for parameter in self.parameters if parameter.required}
        variations = [
            {**defaults, parameter.name: value} for parameter in self.parameters for value in parameter.alternatives
        ]
        return (defaults, *(arguments for arguments in variations if arguments != defaults))

    def missing_before(self, earlier: Collection[str], features: Collection[str]) -> tuple[str, ...]:
        """Return the prerequisites that are not in ``earlier``, for a network with the features ``features``."""
        return tuple(
            need.name
            for need in self.needs
            if need.name not in earlier and (not need.when or not set(need.when).isdisjoint(features))
        )

    def supports(self, tvm_version: str) -> bool:
        """Return whether a compiler of this version has the pass."""
        version = parse_release(tvm_version)
        return all(_satisfies(version, clause) for clause in self.tvm.split(",") if clause)


@dataclass(frozen=True)
class NamedSequence:
    """A pipeline with a name, such as the paper's ``AS-0``.

    Attributes:
        name: Name for ``compare --pipelines``.
        summary: One sentence on its purpose.
        pipeline: Its passes in order.
        build: Options of the build that follows.
        starts_search: True if a search tries it before its own proposals; other sequences serve comparisons only.
        is_baseline: True if every result shows it beside the compiler's own levels; no search starts from it.
        features: Features of a network, which needs one of them. Empty means every network.
        devices: The ``DEVICES`` that a search tries it for; empty means those of its passes.
        recommended: Its place in the order in which sequences are recommended without a search, first 1; 0 for one
            that is not recommended.
        recommended_for: Features of a network, which needs one of them for the recommendation; ``features`` by
            default.
        source: File or publication that the sequence is taken from.
        origin: The catalog file that declares the sequence.
    """

    name: str
    summary: str
    pipeline: Pipeline
    build: BuildOptions = field(default_factory=BuildOptions)
    starts_search: bool = True
    is_baseline: bool = False
    features: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    recommended: int = 0
    recommended_for: tuple[str, ...] = ()
    source: str = ""
    origin: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the document that ``passsearch catalog show --json`` prints of the sequence."""
        return asdict(self) | {"pipeline": str(self.pipeline), "build": self.build.to_json()}

    def candidate(self) -> Candidate:
        """Return the sequence as a candidate of that name."""
        return Candidate(self.pipeline, self.build, self.name)

    def suits(self, features: Collection[str]) -> bool:
        """Return True if the sequence serves a network with these features."""
        return not self.features or not set(self.features).isdisjoint(features)


@dataclass(frozen=True)
class Catalog:
    """The passes, named sequences and class rules of one dialect.

    Attributes:
        dialect: Name of the dialect.
        entries: Passes by name.
        sequences: Named sequences by name.
        rules: Class rules as the files hold them; ``passsearch.analysis`` parses them.
    """

    dialect: str
    entries: Mapping[str, CatalogEntry] = field(default_factory=dict)
    sequences: Mapping[str, NamedSequence] = field(default_factory=dict)
    rules: tuple[Mapping[str, Json], ...] = ()

    def kind(self, name: str) -> str:
        """Return ``pass`` or ``sequence``, what has this name here; empty if nothing has it."""
        return "pass" if name in self.entries else "sequence" if name in self.sequences else ""

    def entry(self, name: str) -> CatalogEntry:
        """Return one pass by name.

        Raises:
            UserError: No pass has that name; the message suggests a similar name.
        """
        if name in self.entries:
            return self.entries[name]
        raise self._unknown_name("pass", name, names=self.entries)

    def sequence(self, name: str) -> NamedSequence:
        """Return one named sequence.

        Raises:
            UserError: No sequence has that name; the message suggests a similar name.
        """
        if name in self.sequences:
            return self.sequences[name]
        raise self._unknown_name("sequence", name, names=self.sequences)

    def conflicts(self, pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
        """Return each pass of a pipeline with each earlier one that it conflicts with, as often as they occur."""
        names = [step.name for step in pipeline.passes]
        return tuple(
            (name, earlier)
            for place, name in enumerate(names)
            for earlier in names[:place]
            if name in self.entries and earlier in self.entries[name].conflicts
        )

    def baselines(self, features: Collection[str]) -> tuple[Candidate, ...]:
        """Return the baselines beside the compiler's levels for a network with the features ``features``."""
        sequences = (sequence for sequence in self.sequences.values() if sequence.is_baseline)
        return tuple(sequence.candidate() for sequence in sequences if sequence.suits(features))

    def approximates(self, candidate: Candidate) -> bool:
        """Return whether a candidate runs a pass that may change numerics, in its pipeline or in its build."""
        build = candidate.build
        exact = PassSpec.of(NARROWING, storage=EXACT)
        explicit = {*(step.name for step in candidate.pipeline.passes if step != exact), *build.required}
        # Passes of level 0 do not count: the build of the reference runs them as well.
        implicit = {name for name, entry in self.entries.items() if 0 < entry.opt_level <= build.opt_level}
        # A pass that the catalog does not list may do anything.
        return any(
            name not in self.entries or self.entries[name].numerics == "approximate"
            for name in explicit | (implicit - {*build.disabled})
        )

    def _unknown_name(self, what: str, name: str, *, names: Iterable[str]) -> UserError:
        suggestion = suggest_name(name, names)
        end = f"; {suggestion}" if suggestion else "."
        # Imported here: the loader makes catalogs.
        from passsearch.catalog.loader import other_dialect

        other, kind = other_dialect(self.dialect, name)
        if here := self.kind(name):
            passes = f", of {self.sequences[name].pipeline}" if name in self.sequences else ""
            end = f": it is a {here}{passes}{end}"
        elif other:
            end = f": it is a {kind} of `{other}`. Give a toolchain of that dialect, or another {what}{end}"
        see = f"passsearch catalog list --dialect {self.dialect}"
        return UserError(f"Unknown {what} `{name}` in dialect `{self.dialect}`{end} See: {see}")


def _sample(parameter: Parameter) -> Json:
    # Alternatives first: they are the values a search uses. `example` serves parameters without any.
    return parameter.alternatives[0] if parameter.alternatives else parameter.example


def same_value(left: Json, right: Json) -> bool:
    """Return whether two values are equal and of one type."""
    # `True == 1` in Python, but `fuse_opt_level=true` is a mistake.
    return type(left) is type(right) and left == right


def parse_release(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version: ``0.16.dev0`` is ``(0, 16)``."""
    # A suffix does not count: a development build such as 0.16.dev0 has the passes of its release.
    numbers = re.match(r"\d+(\.\d+)*", version.strip())
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()


def _satisfies(version: tuple[int, ...], clause: str) -> bool:
    # The loader accepts these three operators only.
    if clause.startswith(">="):
        return version >= parse_release(clause[2:])
    if clause.startswith("<"):
        return version < parse_release(clause[1:])
    # `==0.16` holds for every patch release of 0.16.
    return version[: len(parse_release(clause[2:]))] == parse_release(clause[2:])
