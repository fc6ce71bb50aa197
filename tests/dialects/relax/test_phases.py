"""The phase of a module, whatever operators it has."""

from typing import Any


def test_every_network_is_lowered_through_the_four_phases(cases: Any) -> None:
    results = cases("phase_cases.py")
    assert len(results) == 6
    for case in results:
        assert case["phases"] == ["operators", "loops", "schedules", "memory"], case
