"""Layouts are converted in whatever state of the network the pass is asked for."""

from typing import Any


def test_layouts_are_converted_whatever_stands_beside_the_convolutions(cases: Any) -> None:
    told = {each.pop("case"): each for each in cases("layout_cases.py")}
    assert told.pop("no convolution") == {"converted": False, "changed": False, "same": True}
    assert len(told) == 5
    for name, case in told.items():
        assert case == {"converted": True, "changed": True, "same": True}, name
