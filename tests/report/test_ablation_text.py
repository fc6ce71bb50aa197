"""The text of an ablation begins with what matters."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from passsearch.report import ablation_headline, ablation_text
from passsearch.results import Ablation, LayerWorth, PrecisionWorth

FILE = Path(__file__).parents[1] / "data" / "ablations" / "resnet_tiny-relax.json"


@pytest.fixture
def document() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text()))


def with_worths(document: dict[str, Any], *worths: str) -> dict[str, Any]:
    """The same ablation with other worths of its passes, in order."""
    changed = copy.deepcopy(document)
    rows = [row for row in changed["rows"] if row["kind"] == "without"]
    for row, worth in zip(rows, worths, strict=True):
        row["worth"] = worth
    return changed


def test_the_first_line_says_what_matters(document: dict[str, Any]) -> None:
    lines = ablation_text(Ablation.from_json(document), width=110).splitlines()
    assert lines[0].startswith(document["headline"][:60])
    assert max(map(len, lines)) <= 110 or any("," in line and " " not in line.strip() for line in lines)


def test_passes_are_named_by_their_worth(document: dict[str, Any]) -> None:
    names = [text.partition("{")[0] for text in document["passes"]]
    kinds = ["needed", "loss", *["undecided"] * (len(names) - 3), "nothing"]
    text = ablation_headline(Ablation.from_json(with_worths(document, *kinds)))
    assert text.startswith(
        f"1 of {len(names) + len(document['dropped'])} passes are worth something: {names[0]} (needed)"
    )
    assert f"a loss: {names[1]}" in text
    assert f"worth nothing: {names[-1]}, {', '.join(document['dropped'])}" in text


def test_a_winner_without_passes_owes_its_gain_to_the_build(document: dict[str, Any]) -> None:
    text = ablation_headline(Ablation.from_json({**document, "rows": document["rows"][:1], "dropped": []}))
    assert "no pass" in text and "build options" in text


def test_an_ablation_that_was_cut_off_says_so(document: dict[str, Any]) -> None:
    assert "goes on" in ablation_text(Ablation.from_json({**document, "complete": False}))
    assert "goes on" not in ablation_text(Ablation.from_json({**document, "complete": True}))


def test_an_interval_that_says_nothing_is_not_printed(document: dict[str, Any]) -> None:
    changed = copy.deepcopy(document)
    changed["rows"][1]["gain"]["throughput"] = {"ratio": 1.3, "interval": [1e-9, 5e14]}
    changed["rows"][2]["gain"]["throughput"] = None
    text = ablation_text(Ablation.from_json(changed))
    assert "1.300 [too wide]" in text and "50000000" not in text


def test_layers_in_fewer_bits_have_a_row_each_the_most_saving_first(document: dict[str, Any]) -> None:
    small = LayerWorth(
        storage="int8", kernel="matmul", call=0, weights="8x8", saved_s=1e-5, predicted_error=0.02, error=None
    )
    large = LayerWorth(
        storage="int4",
        group=32,
        kernel="matmul",
        call=1,
        weights="9x9",
        saved_s=1e-3,
        predicted_error=0.01,
        error=0.012,
    )
    worth = PrecisionWorth(predicted_s=2e-3, predicted_error=0.03, error=0.031, layers=(small, large))
    ablation = Ablation.from_json({**document, "precision": worth.to_json()})
    assert ablation.precision == worth
    text = ablation_text(ablation, width=1000)
    rows = [line for line in text.splitlines() if line.startswith("matmul:")]
    assert rows == [
        "matmul:1: 9x9 in int4 in groups of 32; without, 1 ms (50 %) more and a deviation of 0.012 (0.01 predicted)",
        "matmul:0: 8x8 in int8; without, 0.01 ms (0.5 %) more and a deviation of 0.02 (predicted)",
    ]
    assert "kernels take 2 ms and outputs deviate by 0.031 (0.03 predicted) of the largest" in text
    assert "precision of layers" not in ablation_text(Ablation.from_json(document))
    many = replace(worth, layers=(large, *[replace(small, call=each) for each in range(11)]), failure="no time")
    text = ablation_text(Ablation.from_json({**document, "precision": many.to_json()}), width=1000)
    assert text.count("matmul:") == 10 and "other layers: 2, which save less" in text
    assert "deviations that are only predicted: no time" in text
