"""A tuning database schedules the functions it has; other functions stay for the passes after it."""

from typing import Any


def test_a_database_schedules_what_it_has(cases: Any) -> None:
    *_, result = cases("database_cases.py")
    assert result["by database"] == {"tir_exp": True, "sum": False}
    assert result["complete"] == {"tir_exp": True, "sum": True}
    assert result["as recorded"] and result["same"]


def test_a_database_is_applied_only_if_its_digest_matches(cases: Any) -> None:
    empty, relative, another, short, _ = cases("database_cases.py")
    assert "has no database_workload.json" in empty["refused"]
    assert "is not an absolute path" in relative["refused"]
    assert another["digest"] in another["refused"] and "not `00000000`" in another["refused"]
    assert another["digest"] in short["refused"]
