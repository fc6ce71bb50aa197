"""Code that comes with a file: it runs only if the user trusts the file, and is named before it runs."""

import logging
from collections.abc import Sequence

from passsearch.core.messages import NOTICE_LOG
from passsearch.errors import UserError

_notices = logging.getLogger(NOTICE_LOG)


def require_trust(
    file: object,
    code: Sequence[str],
    *,
    trust: bool,
    danger: str = "would run code",
    action: str = "runs",
    otherwise: str = "",
) -> None:
    """Refuse a file that runs code, unless the user trusts it; if so, tell first what will run.

    Args:
        file: The file, by the name that the user knows.
        code: Everything that the file would run, each in words; empty for a file that runs nothing.
        trust: True if the user trusts the file.
        danger: What such parts of a file could do, in a refusal.
        action: What such parts of a file do, in a notice.
        otherwise: A way on for users who do not trust the file.

    Raises:
        UserError: The file runs code and the user does not trust it.
    """
    if code and not trust:
        way_on = f"{otherwise}, or --trust (trust=True)" if otherwise else "give --trust (trust=True)"
        raise UserError(f"`{file}` {danger}: {'; '.join(code)}. To go on: {way_on}.")
    for part in code:
        _notices.warning("trusting `%s`, which %s: %s", file, action, part)
