"""Tests of proposals from explored spaces."""

from typing import Any

import yaml

from passsearch.catalog import format_proposal, summarize_spaces


def space(name: str, classes: list[str], *, idle: list[str], commuting: list[list[str]], **rest: Any) -> dict[str, Any]:
    defaults = {"closed": True, "states": 10, "steps": ["A", "B", "C"]}
    return {"model": {"name": name}, "classes": classes, "idle": idle, "commuting": commuting, **defaults, **rest}


def test_a_pass_with_an_effect_on_one_network_of_the_class_is_not_proposed() -> None:
    summary = summarize_spaces(
        [space("one", ["RN"], idle=["A", "B"], commuting=[]), space("two", ["RN", "SSD"], idle=["A"], commuting=[])]
    )
    assert [row["pass"] for row in summary["RN"]["changes_nothing"]] == ["A"]
    assert summary["RN"]["changes_nothing"][0] == {"pass": "A", "networks": 2, "closed": 2, "states": 20}
    assert [network["name"] for network in summary["SSD"]["networks"]] == ["two"]


def test_pairs_must_commute_in_every_space_where_both_have_an_effect() -> None:
    both = space("one", [], idle=[], commuting=[["A", "B"], ["A", "C"]])
    only_one = space("two", [], idle=["C"], commuting=[], closed=False)
    summary = summarize_spaces([both, only_one])["unknown"]
    assert summary["in_any_order"] == [{"passes": ["A", "C"], "networks": 1, "closed": 1, "states": 10}]


def test_the_order_of_a_pair_in_a_space_does_not_matter() -> None:
    spaces = [space(name, [], idle=[], commuting=[pair]) for name, pair in (("one", ["A", "B"]), ("two", ["B", "A"]))]
    summary = summarize_spaces(spaces)["unknown"]
    assert summary["in_any_order"] == [{"passes": ["A", "B"], "networks": 2, "closed": 2, "states": 20}]


def test_a_space_without_a_pass_says_nothing_about_it() -> None:
    without = space("two", ["RN"], idle=[], commuting=[], steps=["B"])
    summary = summarize_spaces([space("one", ["RN"], idle=["A"], commuting=[]), without])
    assert summary["RN"]["changes_nothing"] == [{"pass": "A", "networks": 1, "closed": 1, "states": 10}]


def test_the_proposal_is_yaml() -> None:
    text = format_proposal({"learned": summarize_spaces([space("one", ["RN"], idle=["A"], commuting=[])])})
    assert yaml.safe_load(text)["learned"]["RN"]["changes_nothing"][0]["pass"] == "A"
