"""Messages for networks that TVM's importers refuse; the quoted texts are TVM 0.16's own."""

from pathlib import Path

import pytest

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.refusal import missing_operators, refusal_message

DYNAMIC = "The following operators are likely to have dynamic range quantization: 'FULLY_CONNECTED'. If you are running"


@pytest.mark.parametrize(
    ("reason", "names"),
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
def test_only_messages_about_missing_operators_name_operators(reason: str, names: list[str]) -> None:
    assert missing_operators(reason) == names
    message = refusal_message(ModelSource(Path("/some/net.tflite"), "tflite", {}), reason)
    assert "\n" not in message
    if names:
        assert f"no operator `{names[0]}`" in message and "toolchain add" in message
    else:
        assert reason in message


def test_a_network_with_quantised_operators_is_sent_to_the_format_that_is_read() -> None:
    reason = "The following operators are not supported for frontend ONNX: QLinearConv, QGemm"
    message = refusal_message(ModelSource(Path("/some/net.onnx"), "onnx", {}), reason)
    assert "no operator `QGemm` and 1 more (QLinearConv); quantise the network in the QDQ format" in message


def test_a_size_that_depends_on_values_has_a_way_round() -> None:
    reason = "Operator Squeeze: Squeeze axis 0 has a symbolic extent that cannot be proven to be 1."
    message = refusal_message(ModelSource(Path("/some/net.onnx"), "onnx", {}), reason)
    assert "proven to be 1; replace it by a mask, or export with sizes that are constant" in message
