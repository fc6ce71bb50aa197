"""Proposals for the catalog from explored spaces: passes that change nothing, and pairs whose order does not matter."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from passsearch.core import UNKNOWN_CLASS

Space = Mapping[str, Any]
"""A space as ``passsearch explore --out`` writes it."""


def summarize_spaces(spaces: Sequence[Space]) -> dict[str, Any]:
    """Return, by class, the passes that changed no state of any network and the pairs whose order never mattered.

    Every row counts the networks it rests on, the networks among them whose space is closed, and the states to which
    a pass was applied. A pass without effect here may have an effect on another network of the class.
    """
    classes = dict.fromkeys(name for space in spaces for name in _classes(space))
    return {name: _summarize_class([space for space in spaces if name in _classes(space)]) for name in classes}


def format_proposal(proposal: Mapping[str, Any]) -> str:
    """Return a proposal as YAML text, to be compared with the files of the catalog.

    Args:
        proposal: ``learned`` from ``summarize_spaces``, ``schedules`` from ``learn_schedules``, or both.
    """
    headings = {
        "learned": "Learned from explored spaces; a pass is safe to leave out where every network's space is closed.",
        "schedules": "Learned from kernels that searches timed alone; a gain has to be measured on whole networks.",
    }
    return "".join(
        f"# {headings[key]}\n{yaml.safe_dump({key: value}, sort_keys=False, width=120)}"
        for key, value in proposal.items()
    )


def _classes(space: Space) -> list[str]:
    return list(space.get("classes") or [UNKNOWN_CLASS])


def _summarize_class(spaces: Sequence[Space]) -> dict[str, Any]:
    return {
        "networks": [
            {"name": space["model"]["name"], "states": space["states"], "closed": space["closed"]} for space in spaces
        ],
        "changes_nothing": _no_op_passes(spaces),
        "in_any_order": _commuting_pairs(spaces),
    }


def _no_op_passes(spaces: Sequence[Space]) -> list[dict[str, Any]]:
    rows = []
    for step in dict.fromkeys(step for space in spaces for step in space["steps"]):
        # A space that was explored without the pass says nothing about it.
        explored = [space for space in spaces if step in space["steps"]]
        # `idle` is the files' key for passes that change nothing.
        if all(step in space["idle"] for space in explored):
            rows.append({"pass": step, **_counts(explored)})
    return rows


def _commuting_pairs(spaces: Sequence[Space]) -> list[dict[str, Any]]:
    """Return the pairs of passes that commute in every space where both have an effect."""
    rows = []
    # A space names the passes of a pair in the order in which it explored them.
    commuting = [{tuple(sorted(pair)) for pair in space["commuting"]} for space in spaces]
    for pair in dict.fromkeys(pair for pairs in commuting for pair in sorted(pairs)):
        # A pass without effect commutes with every other pass, so such a space is no evidence.
        places = [place for place, space in enumerate(spaces) if all(_has_effect(space, step) for step in pair)]
        effective = [spaces[place] for place in places]
        if all(pair in commuting[place] for place in places):
            rows.append({"passes": list(pair), **_counts(effective)})
    return rows


def _has_effect(space: Space, step: str) -> bool:
    return step in space["steps"] and step not in space["idle"]


def _counts(spaces: Sequence[Space]) -> dict[str, int]:
    closed = sum(bool(space["closed"]) for space in spaces)
    return {"networks": len(spaces), "closed": closed, "states": sum(space["states"] for space in spaces)}
