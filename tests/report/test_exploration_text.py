"""Texts and drawing of an explored space."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from passsearch.errors import UserError
from passsearch.report import certificate_check_text, space_html, space_text, state_graph_svg
from passsearch.results import CertificateCheck, ExploredSpace
from passsearch.store.result_schema import schema_problem

TABLE = [[1, 0, 0], [1, 2, 1], [2, 2, 2]]


@pytest.fixture
def space() -> dict[str, Any]:
    """Three states: A leads from 0 to 1, B from 1 to 2, and C changes nothing."""
    return {
        "schema": "passsearch-space/2",
        "model": {"name": "net", "source": "net.onnx", "sha256": "0"},
        "toolchain": {"name": "mine", "dialect": "relay", "tvm_version": "0.16"},
        "target": "llvm",
        "classes": [],
        "closed": True,
        "ended": "closed",
        "states": 3,
        "unfinished": 0,
        "edges": 9,
        "failed": 0,
        "depth": 2,
        "sequences": [{"length": length, "all": 3**length, "valid": 3**length} for length in range(4)],
        "steps": ["A", "B", "C"],
        "left_out": [],
        "given_up": [],
        "idle": ["C"],
        "unsteady": [],
        "not_idempotent": {},
        "commuting": [["A", "C"]],
        "not_commuting": [],
        "enabling": [{"first": "A", "second": "B", "states": 1}],
        "disabling": [],
        "barriers": [["A", "B"]],
        "closed_part": {"steps": ["A", "B", "C"], "states": 3},
        "new_states": {"A": 1, "B": 1},
        "growth": [],
        "tried": 9,
        "remembered": True,
        "seconds": 12.0,
        "graph": {"states": ["0", "1", "2"], "steps": ["A", "B", "C"], "table": TABLE, "seconds": [], "failures": []},
    }


def test_a_closed_space_says_what_that_means(space: dict[str, Any]) -> None:
    text = space_text(ExploredSpace.from_json(space), width=132)

    assert "closed: 3 states, 9 edges (0 failed), depth 2" in text
    assert "no sequence of these passes, however long, makes another IR" in text
    assert "9 of 2 passes, 9 of them valid; 13 valid ones of at most 2 passes" in text
    assert "9 passes applied in 12 s, stored in the fact cache for later runs" in text
    assert "passes that change nothing here: C" in text
    assert "again after another pass: after A: B" in text


def test_of_many_pairs_the_text_has_the_number_and_the_first(space: dict[str, Any]) -> None:
    space["commuting"] = [["A", str(number)] for number in range(200)]
    text = " ".join(space_text(ExploredSpace.from_json(space), width=132).split())
    assert "both orders: 200, for example A and 0; A and 1; " in text
    assert "A and 150" not in text


def test_an_open_space_names_the_limit_and_its_closed_part(space: dict[str, Any]) -> None:
    space |= {"closed": False, "ended": "seconds", "unfinished": 2, "barriers": None, "remembered": False}

    text = " ".join(space_text(ExploredSpace.from_json(space), width=132).split())

    assert "not closed (time limit reached)" in text
    assert "2 states have untried edges" in text
    assert "closed part of the space: 3 states with A, B, C" in text
    assert "because of --fresh" in text


def test_a_certificate_holds_or_names_the_contradictions() -> None:
    outcome = CertificateCheck(
        schema="passsearch-space/2", holds=True, checked=4, edges=9, states=3, closed=True, problems=(), seed=0
    )
    assert "4 of 9 edges applied again, all as certified" in certificate_check_text(outcome)
    refuted = replace(outcome, holds=False, problems=("A leads to another state",))
    assert certificate_check_text(refuted) == "does not hold: A leads to another state"


def test_the_drawing_has_a_circle_per_state_and_a_path_per_edge_and_legend_entry(space: dict[str, Any]) -> None:
    drawing = ElementTree.fromstring(state_graph_svg(ExploredSpace.from_json(space)))

    assert len(drawing.findall("{http://www.w3.org/2000/svg}circle")) == 3
    assert len(drawing.findall("{http://www.w3.org/2000/svg}path")) == 2 + 2


def test_a_notebook_shows_the_same_space(space: dict[str, Any]) -> None:
    html = space_html(ExploredSpace.from_json({**space, "model": {**space["model"], "name": "<net>"}}))

    assert "&lt;net&gt;: 3 states, closed" in html and "<net>" not in html
    assert 'data-title="new states">1</td>' in html


def test_a_space_without_its_graph_is_read_and_not_drawn(space: dict[str, Any]) -> None:
    printed = {key: value for key, value in space.items() if key != "graph"}
    assert schema_problem(printed, ExploredSpace.json_schema()) == ""
    read = ExploredSpace.from_json(printed)
    assert space_text(read) == space_text(ExploredSpace.from_json(space)) and "graph" not in read.to_json()
    with pytest.raises(UserError, match="no graph"):
        state_graph_svg(read)
