"""A digest of the code that decides which IR a network is imported to and what passes make of it."""

from pathlib import Path

import passsearch.dialects
from passsearch.frontends import digest_files


def dialect_digest(name: str) -> str:
    """Return the digest of a dialect's code; facts that were recorded with other code do not hold."""
    home = Path(passsearch.dialects.__file__).parent
    # Only the shared files that importers and passes use: a change of `declaration.py` must not discard every cache.
    shared = [home / file for file in ("contract.py", "constant_table.py", "linker.py", "shared.py")]
    return digest_files([*shared, *sorted((home / name).rglob("*.py"))])
