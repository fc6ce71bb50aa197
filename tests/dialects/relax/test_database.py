"""A tuning database schedules the functions it has; others are left for the passes after it."""

from typing import Any


def test_a_database_schedules_what_it_has(cases: Any) -> None:
    empty, relative, told = cases("database_cases.py")
    assert "has no database_workload.json" in empty["refused"]
    assert "is an absolute path, not `somewhere`" in relative["refused"]
    assert told["found"] == {"tir_exp": True, "sum": False}
    assert told["rest"] == {"tir_exp": True, "sum": True}
    assert told["as recorded"] and told["same"]
