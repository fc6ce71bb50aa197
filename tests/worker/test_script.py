import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from passsearch.worker import ScriptServer, run_script

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


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptServer]:
    with ScriptServer(PYTHON, modules=["fractions", "no_such_module"], threads=1, paths=[]) as server:
        yield server


def _happens(holds: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + 20
    while not holds() and time.monotonic() < end_s:
        time.sleep(0.1)
    return holds()


def _script(folder: Path, text: str) -> Path:
    (folder / "script.py").write_text(f"import sys\nassert 'fractions' in sys.modules\n{text}\n")
    return folder / "script.py"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("print('seen')", 0),
        ("print('seen'); raise ValueError('no')", 1),
        ("print('seen', flush=True); import os; os.kill(os.getpid(), 11)", -11),
        ("print('seen', flush=True); import time; time.sleep(600)", None),
        ("import subprocess; print('seen', flush=True); subprocess.run(['sleep', '600'])", None),
    ],
)
def test_scripts_in_forks_end_in_any_way_and_others_run_after_them(
    server: ScriptServer, tmp_path: Path, text: str, status: int | None
) -> None:
    run = server.run(_script(tmp_path, text), deadline_s=60 if status is not None else 3)
    assert (run.status, run.output) == (status, "seen\n")
    assert ("ValueError: no" in run.errors) == (status == 1)
    assert server.run(_script(tmp_path, "print('next')"), deadline_s=60).output == "next\n"


def test_a_script_that_ends_its_server_does_not_end_the_next_one(server: ScriptServer, tmp_path: Path) -> None:
    server.run(_script(tmp_path, "import os; os.kill(os.getppid(), 9)"), deadline_s=60)
    assert server.run(_script(tmp_path, "print('next')"), deadline_s=60).output == "next\n"


def test_an_interrupted_script_ends_and_the_next_one_gets_its_own_answer(server: ScriptServer, tmp_path: Path) -> None:
    script = _script(tmp_path, f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))")
    script.write_text(script.read_text() + f"os.kill({os.getpid()}, 2); time.sleep(600)")
    # Tests that run in the background ignore the signal.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            server.run(script, deadline_s=60)
    finally:
        signal.signal(signal.SIGINT, usual)
    # A process that has ended may stay in the table without a command line until somebody asks for its status.
    command = Path("/proc", (tmp_path / "pid").read_text(), "cmdline")
    assert _happens(lambda: not command.exists() or not command.read_bytes())
    assert server.run(_script(tmp_path, "print('next')"), deadline_s=60).output == "next\n"
