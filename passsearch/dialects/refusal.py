"""One-line messages for networks that TVM's importers refuse. Needs no TVM."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from passsearch.dialects.contract import ModelSource

_LISTED = re.compile(
    r"(?:operators are not (?:implemented|supported[^:\n]*):|Unsupported function types)\s*(.*)", re.DOTALL
)
"""The message of most importers; a list in braces, brackets or quotes follows, or bare names, or lines."""

_OPERATOR_RECORD = re.compile(r'ir\.Op\(.*?name="([^"]+)".*?support_level=\d+\)', re.DOTALL)
"""TVM's form of an operator inside a message, a paragraph long."""

_CONVERTED = re.compile(r"Operator \w+(?: `[^`\n]*`)?(?=:)")
"""The operator and the node of the network that an importer was converting, at the beginning of its message."""

_COUNTED = re.compile(r"^(\S+): \d+$", re.MULTILINE)
"""The list in MXNet's message: one operator per line, with its number of uses in the graph."""

_ONE = re.compile(r"^Operator (\S+) is not (?:implemented|supported)", re.MULTILINE)
"""The message of an importer that stops at the first operator it lacks."""


_COMPUTED = "All inputs to infer must be available in params."

BY_MASK = "replace it by a mask, or export with sizes that are constant"
"""The way round an operator whose sizes are known at run time only, such as the routing of tokens to experts."""

INTEGER_OPERATORS = re.compile(r"^Q(?:Linear|Gemm)|Integer$")
"""ONNX operators that compute in integers themselves."""


def refusal_message(source: ModelSource, reason: str) -> str:
    """Return a message with the operators the importer lacks, or with the importer's own reason.

    Args:
        source: The model that the importer refused.
        reason: Text of the importer's error.
    """
    names = missing_operators(reason)
    if not names:
        lines = _OPERATOR_RECORD.sub(r"`\1`", reason).strip().splitlines() or ["it does not say why"]
        # The converter's operator stands in the first line, the reason often in the last one.
        operator = _CONVERTED.match(lines[0])
        named = f"{operator[0]}: {lines[-1].removeprefix(operator[0]).lstrip(': ')}" if operator else lines[-1]
        # Relax calls a size symbolic that depends on values.
        named = f"{named.rstrip('.')}; {BY_MASK}" if "symbolic" in named else named
        named = named.replace(_COMPUTED, "an input that has to be constant is computed")
        return f"Cannot import `{source.name}`: TVM's importer of {source.format} refuses it: {named}"
    rest = f" and {len(names) - 1} more ({', '.join(names[1:4])})" if names[1:] else ""
    return (
        f"Cannot import `{source.name}`: TVM's importer of {source.format} has no operator `{names[0]}`{rest}; "
        f"{_way_round(source, names)}, or add a TVM that has it: passsearch toolchain add NAME --python PATH"
    )


def refuse_unread_resize(attributes: Mapping[str, Any]) -> None:
    """Refuse a Resize of ONNX with an option that neither importer reads."""
    unread = [name for name in ("antialias", "axes") if attributes.get(name)]
    if attributes.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        unread.append("keep_aspect_ratio_policy")
    if unread:
        raise NotImplementedError(f"Operator Resize is not supported with {unread[0]}; resize all axes without it")


def refuse_single_corner(attributes: Mapping[str, Any], targets: Iterable[float]) -> None:
    """Refuse a Resize of ONNX to one element of aligned corners, for which both compilers divide by 0.

    Args:
        attributes: Attributes of the operator.
        targets: Sizes of the resized axes afterwards; a fraction counts as the whole number below.
    """
    # A float32 scale may give a size that is slightly too small.
    if attributes.get("coordinate_transformation_mode") == b"align_corners" and any(
        size + 1e-3 < 2 for size in targets
    ):
        raise NotImplementedError(
            "Operator Resize is not supported with align_corners to one element; take the first element instead"
        )


def _way_round(source: ModelSource, names: Sequence[str]) -> str:
    if source.format != "onnx":
        return "replace it in the network, export ONNX instead"
    if all(INTEGER_OPERATORS.search(name) for name in names):
        return "quantise the network in the QDQ format (QuantizeLinear and DequantizeLinear)"
    return "replace it in the network"


def missing_operators(message: str) -> list[str]:
    """Return the operators that an importer's error says it lacks, sorted; empty if it is about something else."""
    listed = _LISTED.search(message)
    if listed is None:
        return _ONE.findall(message)
    first = listed[1].splitlines()[0]
    # Sorted, because importers that collect the names in a set print them in a different order each time.
    return sorted(set(_COUNTED.findall(listed[1]) or re.findall(r"'([^']+)'", first) or first.split(", ")))
