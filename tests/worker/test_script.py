import sys
from pathlib import Path

import pytest

from passsearch.worker import run_script

PYTHON = Path(sys.executable)


def test_output_passes_through_and_status_comes_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print('built'); sys.exit(4)")

    assert run_script(PYTHON, script) == 4
    assert capfd.readouterr().out == "built\n"


def test_output_goes_to_standard_error_on_demand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('built')")

    assert run_script(PYTHON, script, to_stderr=True) == 0
    assert capfd.readouterr() == ("", "built\n")


def test_nothing_of_ours_leaks_into_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    script = tmp_path / "script.py"
    script.write_text("import os, sys; print(os.getcwd(), '/somewhere' in sys.path)")

    run_script(PYTHON, script)

    assert capfd.readouterr().out.split() == [str(tmp_path), "False"]
