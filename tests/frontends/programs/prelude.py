"""Names that every program of this folder uses."""

import sys
from pathlib import Path

from passsearch.errors import UserError
from passsearch.frontends import resolve

FOLDER = Path(sys.argv[1])


def refusal(model, **options):
    """The message with which a network is refused."""
    try:
        resolve(model, folder=FOLDER, **options)
    except UserError as error:
        message = str(error)
    else:
        raise AssertionError("not refused")
    assert "\n" not in message
    return message
