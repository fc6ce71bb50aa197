"""The operators of an ONNX graph that is converted one by one, and the forms that no conversion knows."""

from collections.abc import Callable, Container, Mapping
from typing import Any, TypeAlias, TypeVar

import onnx

Attributes: TypeAlias = Mapping[str, Any]
Result = TypeVar("Result")

LEAST_OPSET = 13
"""Softmax and the axes of Squeeze, Unsqueeze and Split have had their present meaning since."""


def checked_nodes(model: onnx.ModelProto, operator_types: Container[str]) -> list[tuple[onnx.NodeProto, Attributes]]:
    """Return the operators of a graph in order, each with its attributes.

    Args:
        model: The graph.
        operator_types: Those for which there are rules.

    Raises:
        NotImplementedError: There is no rule for an operator or for the operator set, or an attribute that no rule
            reads changes what an operator computes.
    """
    opset = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if opset < LEAST_OPSET:
        raise NotImplementedError(f"operator set {opset}; the rules are those of {LEAST_OPSET} and later")
    nodes: list[tuple[onnx.NodeProto, Attributes]] = []
    for node in model.graph.node:
        if node.op_type not in operator_types:
            raise NotImplementedError(f"no rule for the ONNX operator {node.op_type}")
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        _check_attributes(node.op_type, attributes)
        nodes.append((node, attributes))
    return nodes


def _check_attributes(operator_type: str, attributes: Attributes) -> None:
    is_pool = operator_type == "MaxPool"
    refused = {
        "auto_pad": attributes.get("auto_pad", b"NOTSET") != b"NOTSET",
        "ceil_mode": bool(attributes.get("ceil_mode")),
        "output_shape": "output_shape" in attributes,
        "dilations": is_pool and any(each != 1 for each in attributes.get("dilations", ())),
        "transA": bool(attributes.get("transA")),
    }
    if names := [name for name, is_refused in refused.items() if is_refused]:
        raise NotImplementedError(f"no rule for {', '.join(names)} of the ONNX operator {operator_type}")


def call_rule(
    rule: Callable[[list[Any], Attributes], Result],
    node: onnx.NodeProto,
    values: Mapping[str, Any],
    attributes: Attributes,
) -> Result:
    """Return what a rule makes of an operator.

    Args:
        rule: Takes the inputs and the attributes.
        node: The operator.
        values: All values so far, by name.
        attributes: Those of the operator.

    Raises:
        NotImplementedError: The rule does not know this form of the operator.
    """
    try:
        return rule([values[name] for name in node.input], attributes)
    except (AssertionError, LookupError, ValueError) as error:
        raise NotImplementedError(f"no rule for this form of the ONNX operator {node.op_type}: {error!r}") from error
