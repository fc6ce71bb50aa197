"""What a search says of a baseline that fails."""

from pathlib import Path
from unittest import mock

import pytest

from passsearch.core import Failure
from passsearch.errors import TimeTooShort, UserError
from passsearch.search import BaselineFailed
from passsearch.search.execution import Execution


def _told(failure: Failure, *, is_over: bool) -> UserError:
    execution = mock.Mock()
    execution._options.repetitions, execution._folder.artifacts = 3, Path("artifacts")
    execution._search.run.side_effect = BaselineFailed(failure)
    execution._time_limit.is_over, execution._time_limit.limit_s = is_over, 20.0
    with pytest.raises(UserError) as error:
        Execution._find_best(execution)
    return error.value


def test_a_deadline_that_is_too_short_is_named() -> None:
    timeout = Failure("timeout", "build", "", "no answer within 1 s")
    assert "no answer within 1 s. A longer --deadline" in str(_told(timeout, is_over=False))
    crash = Failure("crash", "build", "", "signal 11")
    assert "--deadline" not in str(_told(crash, is_over=False))


def test_a_time_limit_that_is_too_short_has_an_error_of_its_own() -> None:
    timeout = Failure("timeout", "build", "", "no answer within 20 s")
    assert isinstance(_told(timeout, is_over=True), TimeTooShort)
