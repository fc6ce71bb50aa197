"""Code that comes with a file: it runs only if the user trusts the file, and is named before it runs."""

import logging
from collections.abc import Sequence

from passsearch.errors import UserError

TRUST_LOG = "passsearch.trust"
"""Name of the logger of what a trusted file runs; the command line prints it always."""

_log = logging.getLogger(TRUST_LOG)


def require_trust(file: object, code: Sequence[str], *, trust: bool, otherwise: str = "") -> None:
    """Refuse a file that runs code, unless the user trusts it; if so, log first what will run.

    Args:
        file: The file, by the name that the user knows.
        code: Everything that the file would run, each in words; empty for a file that runs nothing.
        trust: True if the user trusts the file.
        otherwise: A way on for users who do not trust the file.

    Raises:
        UserError: The file runs code and the user does not trust it.
    """
    if code and not trust:
        way_on = f"{otherwise}, or --trust (trust=True)" if otherwise else "give --trust (trust=True)"
        raise UserError(f"`{file}` would run code: {'; '.join(code)}. To go on: {way_on}.")
    for part in code:
        _log.warning("trusting `%s`, which runs: %s", file, part)
