"""A tuning database schedules the functions it has; others are left for the passes after it."""

from typing import Any


def test_a_database_schedules_what_it_has(cases: Any) -> None:
    *_, told = cases("database_cases.py")
    assert told["found"] == {"tir_exp": True, "sum": False}
    assert told["rest"] == {"tir_exp": True, "sum": True}
    assert told["as recorded"] and told["same"]


def test_only_the_database_that_is_meant_is_applied(cases: Any) -> None:
    empty, relative, another, short, _ = cases("database_cases.py")
    assert "has no database_workload.json" in empty["refused"]
    assert "is not an absolute path" in relative["refused"]
    assert another["digest"] in another["refused"] and "not `00000000`" in another["refused"]
    assert another["digest"] in short["refused"]
