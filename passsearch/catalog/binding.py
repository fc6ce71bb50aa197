"""Check a pipeline's arguments against the catalog before a compiler reads them; defaults are not filled in."""

import logging
from collections.abc import Collection

from passsearch.catalog.schema import Catalog, CatalogEntry, Parameter, same_value
from passsearch.core import NOTICE_LOG, Json, PassSpec, Pipeline
from passsearch.errors import UserError

_notices = logging.getLogger(NOTICE_LOG)

_TYPES: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    "list": list,
    "mapping": dict,
}


def bind_arguments(spec: PassSpec, entry: CatalogEntry) -> dict[str, Json]:
    """Return the arguments of one pass as plain values, after a check against the parameters of its entry.

    Raises:
        UserError: A parameter is unknown, a value is not allowed, or a required parameter has no value.
    """
    arguments = spec.argument_values
    for name, value in arguments.items():
        _check_value(value, entry.parameter(name), pass_name=entry.name)
    for parameter in entry.parameters:
        if parameter.required and parameter.name not in arguments:
            raise UserError(
                f"Pass `{entry.name}` needs its parameter `{parameter.name}` ({parameter.allowed}): "
                f"write `{entry.name}{{{parameter.name}=…}}`. See: passsearch catalog show {entry.name}"
            )
    return arguments


def bind_pipeline(pipeline: Pipeline, catalog: Catalog) -> tuple[CatalogEntry, ...]:
    """Return the catalog entries of a pipeline's passes, in order, after a check of every argument.

    Raises:
        UserError: A pass is unknown, or its arguments are not allowed.
    """
    entries = tuple(catalog.entry(step.name) for step in pipeline.passes)
    for step, entry in zip(pipeline.passes, entries, strict=True):
        bind_arguments(step, entry)
    return entries


def warn_of_conflicts(pipeline: Pipeline, catalog: Catalog) -> None:
    """Say in one line which passes of a pipeline come after passes that they conflict with, if there are any."""
    if found := dict.fromkeys(catalog.conflicts(pipeline)):
        _notices.warning(
            "%s: the catalog says that a pass fails or changes nothing there; `passsearch catalog show "
            "PASS --dialect %s` has what was measured.",
            ", ".join(f"`{name}` after `{earlier}`" for name, earlier in found),
            catalog.dialect,
        )


def drop_conflicts(pipeline: Pipeline, catalog: Catalog, *, features: Collection[str]) -> Pipeline:
    """Return the pipeline with prerequisites, and without the passes that then come after one they conflict with.

    A pass is left out together with the prerequisites inserted for it, so that nothing is kept without its own.

    Args:
        pipeline: The sequence as proposed.
        catalog: The source of prerequisites and conflicts.
        features: Features of the network, as for ``insert_prerequisites``.

    Raises:
        UserError: A pass is unknown.
    """
    kept: list[PassSpec] = []
    for step in pipeline.passes:
        longer = [*kept]
        _append(step, longer, catalog=catalog, features=features)
        kept = kept if catalog.conflicts(Pipeline(tuple(longer))) else longer
    return Pipeline(tuple(kept))


def insert_prerequisites(pipeline: Pipeline, catalog: Catalog, *, features: Collection[str]) -> Pipeline:
    """Return the pipeline with prerequisite passes inserted before the first pass that needs them.

    The paper's sequences (CF'22, section 5) leave prerequisites to the compiler: "if a pass depends on the
    execution of another pass, it is called internally". Later releases of TVM do not call them.

    Args:
        pipeline: The sequence as written.
        catalog: The source of prerequisites.
        features: Features of the network; some prerequisites apply only to networks with a certain feature.

    Raises:
        UserError: A pass is unknown.
    """
    steps: list[PassSpec] = []
    for step in pipeline.passes:
        _append(step, steps, catalog=catalog, features=features)
    return Pipeline(tuple(steps))


def _append(step: PassSpec, steps: list[PassSpec], *, catalog: Catalog, features: Collection[str]) -> None:
    # Prerequisites have prerequisites themselves. The recursion ends, because the loader refuses cycles.
    for name in catalog.entry(step.name).missing_before({earlier.name for earlier in steps}, features):
        _append(catalog.entry(name).variants()[0], steps, catalog=catalog, features=features)
    steps.append(step)


def accepts(parameter: Parameter, value: Json) -> bool:
    """Return whether a value is allowed for a parameter."""
    if parameter.choices:
        return any(same_value(value, choice) for choice in parameter.choices)
    if value is None:
        return parameter.default is None and not parameter.required
    # In Python `True` is an `int`, but the compiler's FFI tells the two apart.
    if isinstance(value, bool) and parameter.type != "bool":
        return False
    return isinstance(value, _TYPES[parameter.type])


def _check_value(value: Json, parameter: Parameter, *, pass_name: str) -> None:
    subject, help_ = f"Parameter `{parameter.name}` of pass `{pass_name}`", f"See: passsearch catalog show {pass_name}"
    if not accepts(parameter, value):
        raise UserError(f"{subject} takes {parameter.allowed}; got `{value}`. {help_}")
    places = value if parameter.regions and isinstance(value, dict) else ()
    if wrong := [place for place in places if not place.isdecimal()]:
        raise UserError(f"{subject} names regions by whole numbers from 0; got `{wrong[0]}`. {help_}")
