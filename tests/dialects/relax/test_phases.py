"""How far down a module is, whatever it consists of."""

from typing import Any


def test_every_network_comes_down_through_the_four_phases(cases: Any) -> None:
    told = cases("phase_cases.py")
    assert len(told) == 6
    for case in told:
        assert case["phases"] == ["operators", "loops", "schedules", "memory"], case
