"""The reference of a dialect's passes, named sequences and architecture classes, from the catalog's YAML files."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from passsearch.catalog import CatalogEntry, NamedSequence, Parameter, load

_ROLES = {
    "candidate": "Candidate of a search.",
    "additional": "Searched only on request: `--additional {name}`.",
    "excluded": "Never searched.",
}
_NUMERICS = {"exact": "exact", "reassociates": "only the order of rounding", "approximate": "approximate"}


def catalog_markdown(dialect: str) -> str:
    """Return a dialect's classes, named sequences, and a section for each pass, by topic."""
    catalog = load(dialect)
    topics = [
        f"## {Path(origin).stem.capitalize()}\n\n" + "\n\n".join(map(_pass_section, entries))
        for origin, entries in groupby(catalog.entries.values(), lambda entry: entry.origin)
    ]
    return "\n\n".join([_classes(catalog.rules), _sequences(catalog.sequences.values()), *topics])


def _classes(rules: Iterable[Mapping[str, Any]]) -> str:
    rows = [f"| {rule['name']} | {_cell(rule.get('title', ''))} |" for rule in rules]
    return "\n".join(["## Architecture classes", "", "| class | networks |", "|---|---|", *rows])


def _sequences(sequences: Iterable[NamedSequence]) -> str:
    heads = ["## Named sequences", "", "| name | what it is | passes |", "|---|---|---|"]
    return "\n".join([*heads, *(f"| `{s.name}` | {_cell(s.summary)} | `{s.pipeline}` |" for s in sequences)])


def _pass_section(entry: CatalogEntry) -> str:
    facts = [f"* {name}: {value}" for name, value in _facts(entry)]
    parts = [f"### {entry.name}", _cell(entry.summary), "\n".join(facts)]
    if entry.parameters:
        rows = [_parameter_row(parameter) for parameter in entry.parameters]
        heads = ["| parameter | values | default | a search tries | meaning |", "|---|---|---|---|---|"]
        parts.append("\n".join([*heads, *rows]))
    return "\n\n".join(parts)


def _facts(entry: CatalogEntry) -> Iterator[tuple[str, str]]:
    yield "role", _ROLES[entry.role].format(name=entry.name) + (f" {_cell(entry.reason)}" if entry.reason else "")
    yield "numerics", _NUMERICS[entry.numerics] + (f", tolerance {entry.tolerance:g}" if entry.tolerance else "")
    if entry.opt_level:
        yield "level", f"TVM itself runs it from level {entry.opt_level} on"
    if entry.needs:
        yield "needs", ", ".join(_need(need) for need in entry.needs)
    for name, values in (
        ("fails or changes nothing after", entry.conflicts),
        ("only for graphs with", entry.features),
        ("only on", entry.devices),
        ("phases", entry.phases),
    ):
        if values:
            yield name, ", ".join(f"`{value}`" for value in values)
    if entry.classes:
        yield "classes", ", ".join(entry.classes)
    if entry.paper:
        yield "category in the paper", ", ".join(entry.paper)
    for category, evidence in entry.contradicted.items():
        yield f"measurements against {category}", _cell(evidence)
    yield "TVM", f"{_cell(entry.tvm) or 'all'}; `{entry.source or entry.factory}`"


def _need(need: Any) -> str:
    condition = f" (where the graph has {', '.join(need.when)})" if need.when else ""
    return f"`{need.name}`{condition}"


def _parameter_row(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"`{json.dumps(parameter.default)}`"
    tried = ", ".join(f"`{json.dumps(value)}`" for value in parameter.alternatives)
    tried = tried or ("per kernel" if parameter.per_kernel else "per region" if parameter.regions else "default")
    cells = (f"`{parameter.name}`", _cell(parameter.allowed), default, tried, _cell(parameter.meaning))
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")
