import sys
from pathlib import Path

import pytest

from passsearch.worker import run_script

PYTHON = Path(sys.executable)
PROGRAMS = Path(__file__).parent / "programs"


def test_output_passes_through_and_status_comes_back(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_script(PYTHON, PROGRAMS / "exit_with_status_4.py") == 4
    assert capfd.readouterr().out == "built\n"


def test_output_goes_to_standard_error_on_demand(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_script(PYTHON, PROGRAMS / "exit_with_status_4.py", to_stderr=True) == 4
    assert capfd.readouterr() == ("", "built\n")


def test_the_callers_python_variables_do_not_reach_the_script(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    run_script(PYTHON, PROGRAMS / "print_import_path.py")
    assert capfd.readouterr().out.split() == [str(PROGRAMS), "False"]
