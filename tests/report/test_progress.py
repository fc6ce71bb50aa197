"""The display of progress where standard error is no terminal."""

import time

import pytest

from passsearch.api.common import progress_callback
from passsearch.report import ProgressBar


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


def test_a_delayed_display_shows_only_what_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(delay_s=60) as report:
        report("reading", 0, 2)
    assert capsys.readouterr().err == ""

    with ProgressBar(delay_s=0.05) as report:
        report("reading", 0, 2)
        deadline_s = time.monotonic() + 30
        written = ""
        while not written and time.monotonic() < deadline_s:
            time.sleep(0.01)
            written = capsys.readouterr().err
        assert written == "reading\n"
        report("importing", 1, 2)
    assert capsys.readouterr().err == "importing\n"
