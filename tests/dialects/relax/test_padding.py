"""Networks that may be padded are told from those that may not."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_networks_are_padded_where_that_changes_no_output(
    cases: Callable[..., list[dict[str, Any]]], every: int
) -> None:
    rows = {row["case"]: row for row in cases("padding_cases.py", str(every))}
    # Every n-th network is compiled and run at both sizes.
    run = {name: row["deviation"] for name, row in rows.items() if "deviation" in row}
    assert len(run) == len(range(0, len(rows), every))
    proven = {name: row for name, row in rows.items() if row["proven"]}
    refused = {name: row for name, row in rows.items() if not row["proven"]}
    assert (len(proven), len(refused)) == (10, 16)
    for row in proven.values():
        assert "reason" not in row and row.get("deviation", 0) < 1e-5, row
    for row in refused.values():
        assert row.get("reason"), row
    assert rows["recurrent layer"]["reason"] == "padded steps take part in a recurrent layer"
    # That one is right, and there is no rule for it.
    assert {name for name in refused.keys() & run.keys() if run[name] <= 1e-3} == {"one row of all"} & run.keys()
    # Inputs that mask are those which must leave a position, and a causal mask is none.
    assert {name for name, row in proven.items() if row["masks"] == ["mask"]} == {
        "masked attention",
        "attention of chosen scores",
        "causal attention with a mask",
        "places and attention",
        "first token",
    }
    assert {name for name, row in proven.items() if row["masks"] not in ([], ["mask"])} == set()
    assert rows["heads"]["outputs"] == [{"2": ["x", 1]}]
    assert rows["first token"]["outputs"] == [{}]
