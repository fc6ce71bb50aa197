"""What explored spaces say about passes, by architecture class: a proposal for the catalog, with its evidence."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from passsearch.catalog.schema import UNKNOWN_CLASS

Space = Mapping[str, Any]
"""As ``passsearch explore --out`` writes it."""


def learned(spaces: Sequence[Space]) -> dict[str, Any]:
    """By class, the passes that changed no state of any network, and the pairs whose order never mattered.

    Every line counts the networks it was seen on, and of those whose space is closed; ``states`` are the IRs a pass was
    applied to. A pass without effect here may still have one on another network of the class.
    """
    classes = dict.fromkeys(name for space in spaces for name in _classes(space))
    return {name: _of_class([space for space in spaces if name in _classes(space)]) for name in classes}


def proposal(spaces: Sequence[Space]) -> str:
    """The same as YAML, to be read beside the catalog's own files."""
    heading = "# Learned from explored spaces; a pass is safe to leave out where every network's space is closed.\n"
    return heading + yaml.safe_dump({"learned": learned(spaces)}, sort_keys=False, width=120)


def _classes(space: Space) -> list[str]:
    return list(space.get("classes") or [UNKNOWN_CLASS])


def _of_class(spaces: Sequence[Space]) -> dict[str, Any]:
    return {
        "networks": [
            {"name": each["model"]["name"], "states": each["states"], "closed": each["closed"]} for each in spaces
        ],
        "changes_nothing": _idle(spaces),
        "in_any_order": _commuting(spaces),
    }


def _idle(spaces: Sequence[Space]) -> list[dict[str, Any]]:
    rows = []
    for step in dict.fromkeys(step for space in spaces for step in space["steps"]):
        tried = [space for space in spaces if step in space["steps"]]
        if all(step in space["idle"] for space in tried):
            rows.append({"pass": step, **_counts(tried)})
    return rows


def _commuting(spaces: Sequence[Space]) -> list[dict[str, Any]]:
    """Pairs that commute wherever both act."""
    rows = []
    for pair in dict.fromkeys(tuple(pair) for space in spaces for pair in space["commuting"]):
        acting = [space for space in spaces if all(_acts(space, step) for step in pair)]
        if all(list(pair) in space["commuting"] for space in acting):
            rows.append({"passes": list(pair), **_counts(acting)})
    return rows


def _acts(space: Space, step: str) -> bool:
    return step in space["steps"] and step not in space["idle"]


def _counts(spaces: Sequence[Space]) -> dict[str, int]:
    closed = sum(bool(space["closed"]) for space in spaces)
    return {"networks": len(spaces), "closed": closed, "states": sum(space["states"] for space in spaces)}
