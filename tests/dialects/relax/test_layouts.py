"""Layouts are converted where TVM's own pass ends the process, and nothing else is changed."""

from typing import Any


def test_layouts_are_converted_beside_numbers_and_axes_from_the_end(cases: Any) -> None:
    told = {each.pop("case"): each for each in cases("layout_cases.py")}
    assert told.pop("no convolution") == {"kept": True, "converted": False, "changed": False, "same": True}
    assert len(told) == 7
    for name, case in told.items():
        assert case == {"kept": True, "converted": True, "changed": True, "same": True}, name
