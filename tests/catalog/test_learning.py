"""Proposals from explored spaces."""

from typing import Any

import yaml

from passsearch.catalog import learned, proposal


def space(name: str, classes: list[str], *, idle: list[str], commuting: list[list[str]], **rest: Any) -> dict[str, Any]:
    told = {"closed": True, "states": 10, "steps": ["A", "B", "C"], **rest}
    return {"model": {"name": name}, "classes": classes, "idle": idle, "commuting": commuting, **told}


def test_a_pass_that_acts_on_one_network_of_the_class_is_not_proposed() -> None:
    found = learned(
        [space("one", ["RN"], idle=["A", "B"], commuting=[]), space("two", ["RN", "SSD"], idle=["A"], commuting=[])]
    )
    assert [row["pass"] for row in found["RN"]["changes_nothing"]] == ["A"]
    assert found["RN"]["changes_nothing"][0] == {"pass": "A", "networks": 2, "closed": 2, "states": 20}
    assert [network["name"] for network in found["SSD"]["networks"]] == ["two"]


def test_pairs_must_commute_wherever_both_act() -> None:
    acting = space("one", [], idle=[], commuting=[["A", "B"], ["A", "C"]])
    other = space("two", [], idle=["C"], commuting=[], closed=False)
    found = learned([acting, other])["unknown"]
    assert found["in_any_order"] == [{"passes": ["A", "C"], "networks": 1, "closed": 1, "states": 10}]


def test_a_pass_one_space_never_tried_is_judged_by_the_others() -> None:
    without = space("two", ["RN"], idle=[], commuting=[], steps=["B"])
    found = learned([space("one", ["RN"], idle=["A"], commuting=[]), without])
    assert found["RN"]["changes_nothing"] == [{"pass": "A", "networks": 1, "closed": 1, "states": 10}]


def test_the_proposal_is_yaml() -> None:
    text = proposal([space("one", ["RN"], idle=["A"], commuting=[])])
    assert yaml.safe_load(text)["learned"]["RN"]["changes_nothing"][0]["pass"] == "A"
