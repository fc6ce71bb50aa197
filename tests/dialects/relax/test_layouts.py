"""ConvertLayout works on networks that make TVM's own pass crash, and changes no other network."""

from typing import Any


def test_layouts_are_converted_beside_numbers_and_axes_from_the_end(cases: Any) -> None:
    results = {case.pop("case"): case for case in cases("layout_cases.py")}
    resized = {name: case.pop("resized in NHWC") for name, case in results.items()}
    assert {name: each for name, each in resized.items() if each} == {"resized tokens": [True, True]}
    no_convolution = {"unchanged by NCHW": True, "converted": False, "mixed": False, "changed": False, "same": True}
    assert results.pop("no convolution") == no_convolution
    assert len(results) == 12
    for name, case in results.items():
        is_mixed = case.pop("mixed")
        assert case == {"unchanged by NCHW": True, "converted": True, "changed": True, "same": True}, name
        assert is_mixed == (name == "small groups")
