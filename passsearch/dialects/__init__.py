"""The table of dialects. A dialect is looked up by name or by TVM version."""

import re
from difflib import get_close_matches

from passsearch.dialects import relax, relay
from passsearch.dialects.declaration import CompilerWheel, Dialect, Framework, Version
from passsearch.errors import UserError

__all__ = [
    "DIALECTS",
    "CompilerWheel",
    "Dialect",
    "Framework",
    "Version",
    "dialect",
    "dialect_for_version",
    "parse_version",
]

DIALECTS: dict[str, Dialect] = {entry.name: entry for entry in (relax.DIALECT, relay.DIALECT)}
"""All dialects by name; the first one is meant wherever none is named."""


def dialect(name: str) -> Dialect:
    """Return the dialect of this name.

    Raises:
        UserError: No dialect has this name; the message proposes the nearest one.
    """
    if name in DIALECTS:
        return DIALECTS[name]
    near = get_close_matches(name, DIALECTS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"choose from: {', '.join(DIALECTS)}."
    raise UserError(f"Unknown dialect `{name}`; {hint}")


def dialect_for_version(version: str) -> Dialect:
    """Return the dialect that passsearch uses with a TVM of this version.

    Raises:
        UserError: No dialect supports this version; the message lists the supported ranges.
    """
    # The version decides, not a trial import: TVM 0.19 imports both IRs.
    for entry in DIALECTS.values():
        if entry.supports(parse_version(version)):
            return entry
    ranges = ", ".join(f"{entry.name} with TVM {_version_range(entry)}" for entry in DIALECTS.values())
    raise UserError(f"TVM {version} is not supported; supported are: {ranges}.")


def parse_version(version: str) -> Version:
    """Return the leading numbers of a version: ``0.16.dev0`` is ``(0, 16)``, ``0.27.0.post1`` is ``(0, 27, 0)``."""
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in numbers[1].split(".")) if numbers else ()


def _version_range(entry: Dialect) -> str:
    low, high = (".".join(map(str, version)) for version in entry.tvm_versions)
    return f">={low},<{high}"
