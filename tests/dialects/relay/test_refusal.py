"""What is said where TVM's importer does not take a network; the messages are TVM 0.16's own."""

from pathlib import Path

import pytest

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.refusal import missing_operators, refusal

DYNAMIC = "The following operators are likely to have dynamic range quantization: 'FULLY_CONNECTED'. If you are running"


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("The following operators are not supported for frontend ONNX: StringConcat, Det", ["Det", "StringConcat"]),
        ("The following operators are not implemented: ['aten::bar', 'aten::foo']", ["aten::bar", "aten::foo"]),
        ("The following operators are not implemented: {'TensorListReserve'}", ["TensorListReserve"]),
        (
            "One or more operators are not supported in frontend MXNet:\n_contrib_Foo: 3\nBar: 1",
            ["Bar", "_contrib_Foo"],
        ),
        (f"The following operators are not supported in frontend TFLite: 'FOO', 'BAR'\n{DYNAMIC}", ["BAR", "FOO"]),
        ("Operator Correlation is not supported for frontend MXNet.", ["Correlation"]),
        (DYNAMIC, []),
        ('Attribute "target_shape" is not supported for operator Conv2D-transpose.', []),
        ("Global average pooling is only supported for 1D, 2D, and 3D", []),
    ],
)
def test_operators_that_tvm_lacks_are_told_from_what_else_it_refuses(said: str, names: list[str]) -> None:
    assert missing_operators(said) == names
    told = refusal(ModelSource(Path("/some/net.tflite"), "tflite", {}), said)
    assert "\n" not in told
    assert (f"no operator `{names[0]}`" in told and "toolchain add" in told) if names else said in told
