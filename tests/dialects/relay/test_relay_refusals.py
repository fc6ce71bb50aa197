"""Operators that Relay computes otherwise than ONNX defines are refused in one line that names the way round."""

from typing import Any

REFUSED = {
    "smoothed resize": ("Resize", "antialias"),
    "boxes of half pixels": ("RoiAlign", "output_half_pixel only"),
    "resize by fractions": ("Resize", "give it sizes"),
    "nearest, rounded up": ("Resize", "floor only"),
    "mean that pads and rounds up": ("AveragePool", "not supported with pads"),
    "maximum that pads and rounds up": ("MaxPool", "not supported with pads"),
    "turned convolution that pads by itself": ("ConvTranspose", "give it pads"),
    "branch by data": ("`If`", "tracing"),
    "counted loop": ("`Loop`", "unrolled"),
    "size by data": ("`argwhere`", "mask"),
}


def test_what_relay_computes_otherwise_is_refused_and_nothing_else(cases: Any) -> None:
    messages = {case["case"]: case["refusal"] for case in cases("refusal_cases.py")}
    assert len(messages) == 16
    assert {case for case, message in messages.items() if message} == {*REFUSED}
    for case, words in REFUSED.items():
        assert all(word in messages[case] for word in words) and "\n" not in messages[case], messages[case]
