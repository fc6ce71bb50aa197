"""Inputs as people type them: ``name:dtype[1,3,224,224]``."""

import re

from passsearch.core import TensorType
from passsearch.errors import UserError

DTYPES = (
    *("float32", "float16", "bfloat16", "float64"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
)

# The name may hold colons and brackets itself, as TensorFlow's `image:0` does: the last ones count.
_SPEC = re.compile(r"(?P<name>.+):(?P<dtype>[^:\[\]]+)\[(?P<shape>[^\[\]]*)\]")


def parse_input(text: str) -> tuple[str, TensorType]:
    """Read one input; ``format_input`` is the inverse.

    Raises:
        UserError: The text is not of that form, the dtype is unknown or a dimension is not a positive number.
    """
    parts = _SPEC.fullmatch(text.strip())
    if parts is None:
        raise UserError(
            f"An input reads name:dtype[shape]; got `{text}`. For example: --input image:float32[1,3,224,224]"
        )
    if parts["dtype"] not in DTYPES:
        raise UserError(f"Unknown dtype `{parts['dtype']}` in `{text}`; choose from: {', '.join(DTYPES)}.")
    return parts["name"], TensorType(_shape(parts["shape"], text), parts["dtype"])


def format_input(name: str, kind: TensorType) -> str:
    """Write one input; a dimension that is open is ``?``."""
    shape = ",".join("?" if size is None else str(size) for size in kind.shape)
    return f"{name}:{kind.dtype}[{shape}]"


def _shape(text: str, whole: str) -> tuple[int, ...]:
    if not text.strip():
        return ()
    sizes = [size.strip() for size in text.split(",")]
    for size in sizes:
        if not (size.isascii() and size.isdigit() and int(size) > 0):
            raise UserError(f"Dimensions are whole numbers from 1 on; got `{size}` in `{whole}`.")
    return tuple(map(int, sizes))
