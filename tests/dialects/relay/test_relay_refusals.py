"""Operators that Relay computes otherwise than ONNX defines are refused in one line that names the way round."""

from typing import Any

REFUSED = {
    "smoothed resize": ("Resize", "antialias"),
    "boxes of half pixels": ("RoiAlign", "output_half_pixel only"),
    "resize by fractions": ("Resize", "give it sizes"),
    "nearest, rounded up": ("Resize", "floor only"),
    "maximum of a box": ("RoiAlign", "mode avg only"),
    "dropout that trains": ("Dropout `y`", "for inference"),
    "an operator of another domain": ("ScaledTanh `y`", "domain pkg.layers"),
    "attention of ONNX": ("Attention `y`", "com.microsoft"),
    "an attribute that nothing reads": ("LSTM `y`", "input_forget"),
    "random numbers": ("RandomNormalLike `y`", "make them an input"),
    "shift of signed integers": ("BitShift `y`", "only unsigned integers"),
    "inverse transform of one side": ("DFT `y`", "onesided"),
    "branch by data": ("`If`", "tracing"),
    "counted loop": ("`Loop`", "unrolled"),
    "largest of no elements": ("input `x`", "open or 0"),
    "size by data": ("`argwhere`", "mask"),
}


def test_what_relay_computes_otherwise_is_refused_and_nothing_else(cases: Any) -> None:
    messages = {case["case"]: case["refusal"] for case in cases("refusal_cases.py")}
    assert len(messages) == 26
    assert {case for case, message in messages.items() if message} == {*REFUSED}
    for case, words in REFUSED.items():
        assert all(word in messages[case] for word in words) and "\n" not in messages[case], messages[case]
