"""The display of progress where standard error is no terminal."""

import pytest

from passsearch.api.common import progress_callback


def test_the_default_display_prints_each_phase_and_each_note_once(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_callback(True) as report:
        for text, done, total in (("searching", 0, 3), ("searching", 1, 3), ("a plan", 0, 0), ("confirming", 0, 3)):
            report(text, done, total)

    assert capsys.readouterr().err == "searching\na plan\nconfirming\n"


@pytest.mark.parametrize("progress", [None, False])
def test_no_display_prints_nothing(progress: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_callback(progress) as report:
        report("searching", 0, 3)

    assert capsys.readouterr().err == ""
