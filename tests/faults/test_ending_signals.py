"""The signals of schedulers and closed terminals end a command as Ctrl-C does."""

import os
import signal

import pytest

from passsearch.cli import app
from passsearch.core import ENDING_SIGNALS


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_that_ends_the_process_is_an_interruption(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned_up = []

    def run(*_: object) -> int:
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            cleaned_up.append(True)
        return 0

    monkeypatch.setattr(app, "_run", run)
    # Under `nohup`, SIGHUP is ignored, and the command would wait for ever.
    earlier = signal.signal(number, signal.SIG_DFL)
    try:
        assert app.main(["doctor"]) == app.INTERRUPTED
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, earlier)
    assert cleaned_up and "what is in a run folder or in the cache folder is kept" in capsys.readouterr().err
