"""Operators that Relax computes otherwise than ONNX defines are refused in one line that names the way round."""

from typing import Any

REFUSED = {
    "resize by fractions": ("Operator Resize", "give it sizes"),
    "smoothed resize": ("Operator Resize", "antialias"),
}


def test_what_relax_computes_otherwise_is_refused_and_nothing_else(cases: Any) -> None:
    messages = {case["case"]: case["refusal"] for case in cases("refusal_cases.py")}
    assert len(messages) == 6
    assert {case for case, message in messages.items() if message} == {*REFUSED}
    for case, words in REFUSED.items():
        assert all(word in messages[case] for word in words) and "\n" not in messages[case], messages[case]
