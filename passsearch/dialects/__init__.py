"""The dialects there are; lookup goes by name or by TVM version, never by what happens to import."""

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

DIALECTS: dict[str, Dialect] = {found.name: found for found in (relay.DIALECT, relax.DIALECT)}


def dialect(name: str) -> Dialect:
    """Look a dialect up by name.

    Raises:
        UserError: No such dialect; proposes the nearest.
    """
    if name in DIALECTS:
        return DIALECTS[name]
    near = get_close_matches(name, DIALECTS, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"choose from: {', '.join(DIALECTS)}."
    raise UserError(f"Unknown dialect `{name}`; {hint}")


def dialect_for_version(version: str) -> Dialect:
    """The dialect that passsearch uses with a TVM of this version.

    Raises:
        UserError: No dialect covers it; lists the ranges that are covered.
    """
    for found in DIALECTS.values():
        if found.supports(parse_version(version)):
            return found
    ranges = ", ".join(f"{found.name} with TVM {_range(found)}" for found in DIALECTS.values())
    raise UserError(f"TVM {version} is not supported; supported are: {ranges}.")


def parse_version(version: str) -> Version:
    """Leading numbers of a version: ``0.16.dev0`` is ``(0, 16)``, ``0.27.0.post1`` is ``(0, 27, 0)``."""
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in numbers[1].split(".")) if numbers else ()


def _range(found: Dialect) -> str:
    low, high = (".".join(map(str, version)) for version in found.tvm_versions)
    return f">={low},<{high}"
