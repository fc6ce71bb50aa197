"""The display of progress: lines in a file, a bar in a terminal and in IPython."""

import copy
import os
import subprocess
import sys
import time
from contextlib import suppress
from io import StringIO
from pathlib import Path

import nbclient
import nbformat
import pytest
from rich.console import Console

from passsearch.api.common import progress_callback
from passsearch.core import Step
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


def test_a_terminal_shows_times_the_best_candidate_and_failures() -> None:
    screen = Console(file=StringIO(), force_terminal=True, width=120, height=20)
    detail = "best throughput 1.20 times the baseline's; failed: 2 crash"
    step = Step("searching", detail=detail, elapsed_s=100, limit_s=400)

    with ProgressBar(screen) as report:
        report(step, 3, 10)
        report("a plan", 0, 0)

    assert isinstance(screen.file, StringIO)
    shown = screen.file.getvalue()
    for part in ("searching", "3/10", "100 s of 400 s (25 %), 300 s left", "1.20 times", "failed: 2 crash", "a plan"):
        assert part in shown


def test_ipython_shows_progress_by_default_and_other_programs_do_not(tmp_path: Path) -> None:
    program = "from passsearch.api.common import *\nwith progress_callback(None) as r: r('search' + 'ing', 1, 3)"

    assert "searching" in _on_a_terminal([sys.executable, "-m", "IPython", "-c", program], home=tmp_path)
    assert "searching" not in _on_a_terminal([sys.executable, "-c", program], home=tmp_path)


def test_a_notebook_shows_the_bar_and_removes_it_at_the_end() -> None:
    begin = (
        "from passsearch.core import Step\nfrom passsearch.report import ProgressBar\n"
        "report = ProgressBar().__enter__()\nreport('a <plan>', 0, 0)\n"
        "report(Step('searching', detail='best', elapsed_s=6, limit_s=60), 3, 10)"
    )
    cells = [nbformat.v4.new_code_cell(code) for code in (begin, "report.__exit__(None, None, None)")]
    [before], [after] = ([_html(output) for output in outputs] for outputs in _outputs_after_each(cells))

    assert "a &lt;plan&gt;<br><b>searching</b>" in before and "3/10" in before and "6 s of 60 s" in before
    assert after == ""


def _outputs_after_each(cells: list[nbformat.NotebookNode]) -> list[list[nbformat.NotebookNode]]:
    """Execute cells, and return the outputs of the first cell after each of them."""
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, timeout=120)
    with client.setup_kernel():
        states = []
        for number, cell in enumerate(cells):
            client.execute_cell(cell, number)
            states.append(copy.deepcopy(cells[0].outputs))
    return states


def _html(output: nbformat.NotebookNode) -> str:
    return str(output["data"]["text/html"])


def _on_a_terminal(command: list[str], *, home: Path) -> str:
    """Return what a command shows on a terminal of its own."""
    shown, terminal = os.openpty()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env={**os.environ, "IPYTHONDIR": str(home)}
    ):
        os.close(terminal)
        text = b""
        with suppress(OSError), os.fdopen(shown, "rb", buffering=0) as file:  # Linux raises EIO at the end
            while part := file.read(4096):
                text += part
    return text.decode(errors="replace")


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
