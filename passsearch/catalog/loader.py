"""Read a dialect's catalog and the user's own files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from passsearch.catalog.binding import accepts, bind_pipeline
from passsearch.catalog.fields import FACTORY, PASS_NAME, VERSIONS, Fields, read_rows
from passsearch.catalog.relations import read_relations
from passsearch.catalog.schema import (
    DEVICES,
    EVERY_CLASS,
    NUMERICS,
    PAPER_CATEGORIES,
    PARAMETER_TYPES,
    ROLES,
    Catalog,
    CatalogEntry,
    NamedSequence,
    Need,
    Parameter,
)
from passsearch.catalog.yaml_files import parse_yaml, read_yaml
from passsearch.core import UNKNOWN_CLASS, BuildOptions, Json, Pipeline
from passsearch.errors import UserError


@dataclass(frozen=True)
class _Rule:
    """A class rule as its file holds it."""

    name: str
    values: Mapping[str, Json]
    origin: str


Declaration = TypeVar("Declaration", CatalogEntry, NamedSequence, _Rule)

_SECTIONS = ("passes", "sequences", "classes")
_ENTRY_FIELDS = (
    "name",
    "summary",
    "factory",
    "opt_level",
    "parameters",
    "needs",
    "conflicts",
    "numerics",
    "tolerance",
    "features",
    "paper",
    "contradicted",
    "classes",
    "role",
    "reason",
    "before",
    "repeat",
    "unbounded",
    "phases",
    "devices",
    "tvm",
    "source",
)
_RULE_FIELDS = ("name", "title", "when")
_PARAMETER_FIELDS = (
    "type",
    "default",
    "alternatives",
    "choices",
    "example",
    "per_kernel",
    "regions",
    "region_values",
    "meaning",
)


def load(dialect: str, *extra_files: Path | str) -> Catalog:
    """Return the catalog of a dialect, together with the passes, sequences and class rules of the user's files.

    Raises:
        UserError: The dialect does not exist, a file cannot be read, or a field has a mistake.
    """
    passes: dict[str, CatalogEntry] = {}
    sequences: dict[str, NamedSequence] = {}
    rules: dict[str, _Rule] = {}
    own = ((str(path), read_yaml(Path(path), what="catalog file")) for path in extra_files)
    documents = [*_shipped_documents(dialect), *own]
    for origin, document in documents:
        entries, named, own_rules = _read_document(origin, document)
        for entry in entries:
            _add(passes, entry)
        for sequence in named:
            _add(sequences, sequence)
        for rule in own_rules:
            _add(rules, rule)
    catalog = Catalog(dialect, passes, sequences, tuple(rule.values for rule in rules.values()))
    # References are checked last, because a pass may refer to a pass or class of a later file.
    _check_references(catalog)
    return catalog


def find_entry(name: str, dialects: Sequence[str], *extra_files: Path | str) -> CatalogEntry:
    """Return the entry of a pass in the first of these dialects that has it.

    Raises:
        UserError: None has it, or a file has a mistake.
    """
    catalogs = (load(dialect, *extra_files) for dialect in dialects)
    catalog = next((each for each in catalogs if name in each.entries), None)
    return (catalog or load(dialects[0], *extra_files)).entry(name)


def describe_name(name: str, dialects: Sequence[str], *extra_files: Path | str) -> dict[str, Json]:
    """Return the document that ``passsearch catalog show --json`` prints of a name, in the first dialect that has it.

    A sequence takes precedence over a pass; a pass comes with its measured relations.

    Raises:
        UserError: None has it, or a file has a mistake.
    """
    catalogs = [load(dialect, *extra_files) for dialect in dialects]
    if found := next((each for each in catalogs if each.kind(name) == "sequence"), None):
        return found.sequences[name].to_json()
    catalog = next((each for each in catalogs if name in each.entries), catalogs[0])
    relations = read_relations(catalog.dialect)
    shown = {"relations": relations.of(name).to_json()} if relations else {}
    return {**catalog.entry(name).to_json(), **shown}


def other_dialect(dialect: str, name: str) -> tuple[str, str]:
    """Return a dialect other than this one that ships a name, and its kind; both are empty if none does."""
    catalogs = (load(other) for other in _shipped_dialects() if other != dialect)
    return next(((each.dialect, kind) for each in catalogs if (kind := each.kind(name))), ("", ""))


def _read_document(origin: str, document: Json) -> tuple[list[CatalogEntry], list[NamedSequence], list[_Rule]]:
    """Return the passes, sequences and class rules of one file."""
    try:
        sections = _sections(origin, document)
        return (
            read_rows(sections["passes"], origin=origin, what="pass", read=_entry),
            read_rows(sections["sequences"], origin=origin, what="sequence", read=_sequence),
            read_rows(sections["classes"], origin=origin, what="class", read=_rule),
        )
    except RecursionError:
        raise UserError(f"`{origin}` is nested too deeply; write its values flat.") from None


def _shipped_dialects() -> list[str]:
    folders = files("pass_catalog").iterdir()
    return sorted(item.name for item in folders if item.is_dir() and not item.name.startswith("_"))


def _shipped_documents(dialect: str) -> Iterator[tuple[str, Json]]:
    root = files("pass_catalog")
    folder = root.joinpath(dialect)
    # `isidentifier` refuses names such as `..`, which would leave the catalog's folder.
    if not dialect.isidentifier() or not folder.is_dir():
        raise UserError(f"Unknown dialect `{dialect}`; the catalog has: {', '.join(_shipped_dialects())}.")
    # Sorted, because the order of files is the order of passes in listings and in the search space.
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".yaml"):
            origin = f"{dialect}/{file.name}"
            yield origin, parse_yaml(file.read_text(encoding="utf-8"), origin)


def _sections(origin: str, document: Json) -> dict[str, Json]:
    # A bare list is a file of class rules.
    if isinstance(document, list):
        return {"passes": [], "sequences": [], "classes": document}
    if not isinstance(document, dict):
        raise UserError(f"`{origin}`: got `{document}`; allowed: a mapping of {', '.join(_SECTIONS)}.")
    Fields(document, origin, "top level").allow_only(_SECTIONS)
    return {name: document.get(name) or [] for name in _SECTIONS}


def _entry(fields: Fields) -> CatalogEntry:
    fields.allow_only(_ENTRY_FIELDS)
    entry = CatalogEntry(
        name=fields.matching("name", PASS_NAME, allowed="letters, digits, `_` and `.`, a letter or `_` first"),
        summary=fields.text("summary"),
        factory=fields.matching("factory", FACTORY, allowed="`module:function`"),
        opt_level=fields.integer("opt_level", low=0, high=5),
        parameters=tuple(_parameter(fields, name) for name in fields.mapping("parameters")),
        needs=tuple(_need(fields, row) for row in fields.items("needs")),
        conflicts=fields.texts("conflicts"),
        numerics=fields.one_of("numerics", NUMERICS, default="exact"),
        tolerance=fields.fraction("tolerance", default=0.0),
        features=fields.texts("features"),
        paper=fields.some_of("paper", PAPER_CATEGORIES),
        contradicted=_contradicted(fields),
        classes=fields.texts("classes") or (EVERY_CLASS,),
        role=fields.one_of("role", ROLES, default="candidate"),
        reason=fields.text("reason", default=""),
        before=fields.texts("before"),
        repeat=fields.integer("repeat", low=1, high=9, default=1),
        unbounded=fields.flag("unbounded"),
        phases=fields.texts("phases"),
        devices=fields.some_of("devices", DEVICES),
        tvm=_version_range(fields),
        source=fields.text("source", default=""),
        origin=fields.origin,
    )
    _check_entry(entry, fields)
    return entry


def _contradicted(owner: Fields) -> dict[str, str]:
    fields = owner.inner("contradicted", owner.values.get("contradicted", {}))
    # Measurements can contradict only the categories that the paper names.
    fields.allow_only(owner.texts("paper"))
    return {name: fields.text(name) for name in fields.values}


def _version_range(fields: Fields) -> str:
    # No range means every version, which a user's own pass may claim.
    if "tvm" not in fields.values:
        return ""
    return fields.matching("tvm", VERSIONS, allowed="a version range such as `>=0.8,<0.20`")


def _rule(fields: Fields) -> _Rule:
    """Read the name of a class rule. The analysis, which this room may not import, parses its condition later."""
    fields.allow_only(_RULE_FIELDS)
    name = fields.text("name")
    # A pass of `all` serves every class, and in a network that is `unknown` no class speaks against a pass.
    if name in (EVERY_CLASS, UNKNOWN_CLASS):
        raise fields.fault("name", name, allowed=f"any name but `{EVERY_CLASS}` and `{UNKNOWN_CLASS}`")
    return _Rule(name, fields.values, fields.origin)


def _check_entry(entry: CatalogEntry, fields: Fields) -> None:
    if entry.role != "candidate" and not entry.reason:
        raise fields.fault("reason", "nothing", allowed=f"a text, because the role is `{entry.role}`")
    # The tolerance is the limit for outputs, so a pass that is not exact needs one and an exact pass must not have one.
    if (entry.numerics == "exact") != (entry.tolerance == 0):
        allowed = "0 where numerics is exact, more elsewhere"
        raise fields.fault("tolerance", entry.tolerance, allowed=allowed)
    for parameter in entry.parameters:
        _check_per_kernel(parameter, entry, fields)
        # A search adds candidates by itself, so the catalog must hold a value for every required parameter.
        if entry.role == "candidate" and parameter.required and not parameter.alternatives:
            raise fields.fault(
                f"parameters.{parameter.name}.alternatives", "nothing", allowed="values to try, as it has no default"
            )


def _check_per_kernel(parameter: Parameter, entry: CatalogEntry, fields: Fields) -> None:
    others = [other.name for other in entry.parameters if other is not parameter]
    for name in parameter.per_kernel:
        if name not in others:
            field = f"parameters.{parameter.name}.per_kernel"
            raise fields.fault(field, name, allowed="names of the pass's other parameters")


def _parameter(owner: Fields, name: str) -> Parameter:
    fields = owner.inner(f"parameters.{name}", owner.mapping("parameters")[name])
    fields.allow_only(_PARAMETER_FIELDS)
    parameter = Parameter(
        name=name,
        type=fields.one_of("type", PARAMETER_TYPES),
        required="default" not in fields.values,
        default=fields.values.get("default"),
        alternatives=fields.items("alternatives"),
        choices=fields.items("choices"),
        example=fields.values.get("example"),
        per_kernel=_values_by_name(fields, "per_kernel"),
        regions=_regions(fields),
        region_values=fields.items("region_values"),
        meaning=fields.text("meaning", default=""),
    )
    _check_parameter(parameter, fields)
    return parameter


def _regions(fields: Fields) -> str:
    values = fields.items("region_values")
    if "regions" not in fields.values:
        if values:
            raise fields.fault("regions", "nothing", allowed="`module:function`, as there are `region_values`")
        return ""
    # The first value is that of regions that nobody decided on, so a search needs another one to try.
    if len(values) < 2:
        raise fields.fault("region_values", list(values), allowed="two values or more, the first for other regions")
    return fields.matching("regions", FACTORY, allowed="`module:function`")


def _values_by_name(owner: Fields, name: str) -> dict[str, tuple[Json, ...]]:
    fields = owner.inner(name, dict(owner.mapping(name)))
    return {key: fields.items(key) for key in fields.values}


def _check_parameter(parameter: Parameter, fields: Fields) -> None:
    values = [("alternatives", value) for value in parameter.alternatives]
    if parameter.example is not None:
        values.append(("example", parameter.example))
    if not parameter.required:
        values.append(("default", parameter.default))
    for name, value in values:
        if not accepts(parameter, value):
            raise fields.fault(name, value, allowed=parameter.allowed)


def _need(owner: Fields, row: Json) -> Need:
    # A prerequisite that always applies is only a name.
    if isinstance(row, str):
        return Need(row)
    fields = owner.inner("needs", row)
    fields.allow_only(("pass", "when"))
    features = fields.texts("when") if isinstance(fields.values.get("when"), list) else (fields.text("when"),)
    return Need(fields.text("pass"), features)


_SEQUENCE_FIELDS = (
    *("name", "summary", "pipeline", "build", "tried", "baseline", "features", "devices", "recommended"),
    *("recommended_for", "source"),
)


def _sequence(fields: Fields) -> NamedSequence:
    fields.allow_only(_SEQUENCE_FIELDS)
    # The parser knows the position in the text, but not the file and the sequence; the message needs both.
    try:
        pipeline = Pipeline.parse(fields.text("pipeline"))
    except UserError as error:
        raise fields.fault("pipeline", fields.values.get("pipeline"), allowed=str(error)) from None
    is_baseline = fields.flag("baseline", default=False)
    return NamedSequence(
        name=fields.text("name"),
        summary=fields.text("summary"),
        pipeline=pipeline,
        build=BuildOptions(opt_level=_build_level(fields)),
        starts_search=fields.flag("tried", default=not is_baseline),
        is_baseline=is_baseline,
        features=fields.texts("features"),
        devices=fields.some_of("devices", DEVICES),
        recommended=fields.integer("recommended", low=0, high=99, default=0),
        recommended_for=fields.texts("recommended_for"),
        source=fields.text("source", default=""),
        origin=fields.origin,
    )


def _build_level(owner: Fields) -> int:
    fields = owner.inner("build", owner.values.get("build", {}))
    fields.allow_only(("opt_level",))
    return fields.integer("opt_level", low=0, high=4, default=0)


def _add(declarations: dict[str, Declaration], declaration: Declaration) -> None:
    name = declaration.name
    if name in declarations:
        first, second = declarations[name].origin, declaration.origin
        raise UserError(f"`{second}`: `{name}` is already declared in `{first}`; give yours another name.")
    declarations[name] = declaration


def _check_references(catalog: Catalog) -> None:
    classes = [EVERY_CLASS, *(str(rule["name"]) for rule in catalog.rules)]
    for entry in catalog.entries.values():
        fields = Fields({"classes": list(entry.classes)}, entry.origin, f"pass `{entry.name}`")
        fields.some_of("classes", classes)
        _check_names(fields, "needs", names=[need.name for need in entry.needs], catalog=catalog)
        _check_names(fields, "conflicts", names=entry.conflicts, catalog=catalog)
        _check_names(fields, "before", names=entry.before, catalog=catalog)
    # Cycles are looked for after all names are valid, as the walk looks every name up.
    for entry in catalog.entries.values():
        _check_acyclic(entry, Fields({}, entry.origin, f"pass `{entry.name}`"), catalog=catalog)
    for sequence in catalog.sequences.values():
        _check_sequence(sequence, catalog)


def _check_acyclic(entry: CatalogEntry, fields: Fields, *, catalog: Catalog) -> None:
    visited: set[str] = set()
    stack = [need.name for need in entry.needs]
    while stack:
        name = stack.pop()
        if name == entry.name:
            raise fields.fault("needs", name, allowed="passes that do not need this one themselves")
        if name not in visited:
            visited.add(name)
            stack += [need.name for need in catalog.entries[name].needs]


def _check_sequence(sequence: NamedSequence, catalog: Catalog) -> None:
    try:
        bind_pipeline(sequence.pipeline, catalog)
    except UserError as error:
        raise UserError(f"`{sequence.origin}`, sequence `{sequence.name}`: {error}") from None


def _check_names(fields: Fields, field: str, *, names: Iterable[str], catalog: Catalog) -> None:
    for name in names:
        if name not in catalog.entries:
            raise fields.fault(field, name, allowed="names of passes in the catalog")
