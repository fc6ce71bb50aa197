"""A digest of the code that decides which IR a network is imported to and what passes make of it."""

from pathlib import Path

import passsearch.dialects
from passsearch.frontends import digest_files


def dialect_digest(name: str) -> str:
    """Return the digest of a dialect's code. What was found with other code does not hold."""
    home = Path(passsearch.dialects.__file__).parent
    shared = [home / file for file in ("contract.py", "constant_table.py", "linker.py", "shared.py")]
    return digest_files([*shared, *sorted((home / name).rglob("*.py"))])
