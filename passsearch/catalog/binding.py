"""Hold a pipeline's arguments against the catalog before any compiler sees them; nothing is filled in."""

from collections.abc import Collection

from passsearch.catalog.schema import Catalog, CatalogEntry, Parameter, same_value
from passsearch.core import Json, PassSpec, Pipeline
from passsearch.errors import UserError

_TYPES: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "list": list,
    "mapping": dict,
}


def bind(spec: PassSpec, entry: CatalogEntry) -> dict[str, Json]:
    """The arguments of one pass as plain values, each checked against its parameter.

    Raises:
        UserError: An unknown parameter, a value it does not take, or a required one left out.
    """
    arguments = spec.bound
    for name, value in arguments.items():
        _check_value(value, entry.parameter(name), owner=entry.name)
    for parameter in entry.parameters:
        if parameter.required and parameter.name not in arguments:
            raise UserError(
                f"Pass `{entry.name}` needs its parameter `{parameter.name}` ({parameter.allowed}): "
                f"write `{entry.name}{{{parameter.name}=…}}`. See: passsearch catalog show {entry.name}"
            )
    return arguments


def bind_pipeline(pipeline: Pipeline, catalog: Catalog) -> tuple[CatalogEntry, ...]:
    """The entries of a pipeline's passes, in order, every argument checked.

    Raises:
        UserError: An unknown pass, or arguments that do not bind.
    """
    entries = tuple(catalog.entry(step.name) for step in pipeline.passes)
    for step, entry in zip(pipeline.passes, entries, strict=True):
        bind(step, entry)
    return entries


def with_needs(pipeline: Pipeline, catalog: Catalog, *, present: Collection[str]) -> Pipeline:
    """The pipeline with every needed pass put before the first pass that needs it.

    The paper's sequences (CF'22, section 5) leave these to the compiler: "if a pass depends on the
    execution of another pass, it is called internally". Later releases do not call them.

    Args:
        pipeline: The sequence as written.
        catalog: Says which passes need which.
        present: Features of the network; some needs hold only for networks that have one.

    Raises:
        UserError: An unknown pass.
    """
    placed: list[PassSpec] = []
    for step in pipeline.passes:
        _place(step, placed, catalog=catalog, present=present)
    return Pipeline(tuple(placed))


def _place(step: PassSpec, placed: list[PassSpec], *, catalog: Catalog, present: Collection[str]) -> None:
    for name in catalog.entry(step.name).missing_before({each.name for each in placed}, present):
        _place(catalog.entry(name).variants()[0], placed, catalog=catalog, present=present)
    placed.append(step)


def accepts(parameter: Parameter, value: Json) -> bool:
    """Whether a parameter takes a value."""
    if parameter.choices:
        return any(same_value(value, choice) for choice in parameter.choices)
    if value is None:
        return parameter.default is None and not parameter.required
    if isinstance(value, bool) and parameter.type != "bool":
        return False
    return isinstance(value, _TYPES[parameter.type])


def _check_value(value: Json, parameter: Parameter, *, owner: str) -> None:
    if not accepts(parameter, value):
        raise UserError(
            f"Parameter `{parameter.name}` of pass `{owner}` takes {parameter.allowed}; got `{value}`. "
            f"See: passsearch catalog show {owner}"
        )
