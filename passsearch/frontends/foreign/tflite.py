"""Operators of TFLite files: its own, by number, and the one custom operator that importers know."""

from collections.abc import Iterator
from pathlib import Path

from passsearch.frontends.foreign.flatbuffer import root

_CUSTOM, _DELEGATE, _PLACEHOLDER, _LAST = 32, 51, 127, 161
"""Numbers of operators in TensorFlow's ``schema.fbs`` (2.15): user's own, those of a delegate, one for numbers above
127, and the last that computes from its inputs alone."""

_KNOWN_CUSTOM = frozenset({"TFLite_Detection_PostProcess"})


def violations_in_file(path: Path) -> Iterator[str]:
    """Yield the operators of a file that are not allowed.

    Raises:
        ValueError: It is no TFLite file, or is cut.
    """
    content = path.read_bytes()
    if content[4:8] != b"TFL3":
        raise ValueError("no TFLite file")
    for code in root(content).tables(1):
        # Old files have a byte for the number; new ones have the larger of both fields.
        number = max(code.number(0, "<b"), code.number(3, "<i"))
        name = code.text(1)
        if number == _CUSTOM:
            if name not in _KNOWN_CUSTOM:
                yield f"custom operator `{name}`"
        elif number in (_DELEGATE, _PLACEHOLDER) or not 0 <= number <= _LAST:
            yield f"operator number {number}"
