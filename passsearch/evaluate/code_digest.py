"""A digest of the code that decides which IR a network is imported to, and what passes and builds make of it."""

from pathlib import Path

import passsearch.dialects
from passsearch.frontends import digest_files


def dialect_digest(name: str) -> str:
    """Return the digest of a dialect's code; facts that were recorded with other code do not hold."""
    home = Path(passsearch.dialects.__file__).parent
    # Only the shared files that importers, passes and builds use: a change of `declaration.py` must not discard every
    # cache.
    files = ("contract.py", "constant_table.py", "cuda_libraries.py", "linker.py", "shared.py")
    shared = [home / file for file in files]
    return digest_files([*shared, *sorted((home / name).rglob("*.py"))])
