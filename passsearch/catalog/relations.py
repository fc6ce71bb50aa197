"""Reads the relations between passes that the catalog ships."""

import json
from functools import cache
from importlib.resources import files

from passsearch.results import MeasuredRelations


@cache
def read_relations(dialect: str) -> MeasuredRelations | None:
    """Return how pairs of passes of a dialect act on each other; ``None`` for a dialect without measurements."""
    file = files("pass_catalog").joinpath(dialect).joinpath("pairs.json")
    return MeasuredRelations.from_json(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else None
