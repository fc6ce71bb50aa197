"""A worker's start imports no library that TVM needs for its quantization only."""

from typing import Any


def test_statistics_are_imported_when_they_are_used(cases: Any) -> None:
    (case,) = cases("import_case.py")
    assert not case["with_bridge"] and case["entropy"] == 1.0
