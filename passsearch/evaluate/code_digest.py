"""A digest of the code that decides which IR a network is imported to, and what passes and builds make of it."""

from pathlib import Path

from passsearch.frontends import digest_files

_PACKAGE = Path(__file__).parents[1]


def dialect_digest(name: str) -> str:
    """Return the digest of a dialect's code; facts that were recorded with other code do not hold."""
    dialects, standalone = (_PACKAGE / room for room in ("dialects", "standalone"))
    # Only the shared files that importers, passes and builds use: a change of `declaration.py` must not discard every
    # cache.
    shared = [dialects / file for file in ("contract.py", "constant_table.py", "shared.py")]
    shared += sorted(dialects.glob("onnx_*.py"))
    shared.append(standalone / "deployment" / "linker.py")
    own = (file for room in (dialects, standalone) for file in sorted((room / name).rglob("*.py")))
    return digest_files([*shared, *own])
