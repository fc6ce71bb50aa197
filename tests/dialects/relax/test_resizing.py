"""Resizes by tables are computed as ONNX defines them and as TVM's own loops do."""

from typing import Any


def test_resizes_by_tables_keep_their_results(cases: Any) -> None:
    results = cases("resize_cases.py")
    assert len(results) > 200
    assert not [case for case in results if not case["deviation"] <= case["limit"]]
