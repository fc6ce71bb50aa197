"""Tables that fit a width."""

import pytest

from passsearch.report.listings import zoo_text
from passsearch.report.table import table

NAME = "SpecializePrimFuncBasedOnCallSite"


@pytest.mark.parametrize("width", [72, 80, 120])
def test_names_in_the_first_column_are_never_broken(width: int) -> None:
    text = table(("pass", "reason"), [(NAME, "never searched: " + "not for inference " * 9)], width=width)
    assert NAME in text and max(map(len, text.splitlines())) <= width


def test_titles_and_names_are_broken_at_strokes_and_hyphens_first() -> None:
    titles = ("", "latency ms", "per s", "throughput/default", "compile s", "default/compile", "MB", "threads")
    row = ("schedule-cpu", "5.485 [5.480, 5.490]", "182.3", "3.210 [3.185, 3.262]", "12.5", "0.712", "16.9", "2")
    lines = table(titles, [row], width=80, right=titles[1:]).splitlines()
    words = " ".join(lines).split()
    assert {"default/", "compile", "threads"} <= {*words} and max(map(len, lines)) <= 80
    assert "default/compile" in table(titles, [row], width=120, right=titles[1:])


def test_one_long_cell_does_not_take_the_room_of_other_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    summary = "GPT-2 with a cache, one token"
    cache = ", ".join(f"past_{number}:float32[1,12,128,64]" for number in range(24))
    rows = [{"name": "gpt2_decoder", "summary": summary, "inputs": f"ids:int64[1,1], {cache}"}]
    assert summary in zoo_text(rows)
