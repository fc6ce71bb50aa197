from collections.abc import Callable
from typing import NamedTuple

import pytest

from passsearch import cli


class Answer(NamedTuple):
    """What one command returned and printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def passsearch(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """A function that runs one command in this process."""

    def run(*arguments: object) -> Answer:
        code = cli.main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run
