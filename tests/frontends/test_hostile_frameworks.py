"""With the frameworks themselves: files that do write when they are loaded are refused, honest ones are not."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.frontends import find_code

PROGRAMS = Path(__file__).parent / "programs"


def run(program: str, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, PROGRAMS / program, *map(str, words)], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "torch"])
def test_files_that_write_when_they_are_loaded_are_refused(tmp_path: Path, framework: str) -> None:
    pytest.importorskip(framework)
    wrote = run(f"hostile_{framework}.py", tmp_path / "files", tmp_path / "canary").split()
    files = sorted((tmp_path / "files").iterdir())
    assert len(wrote) >= 2, "the attacks work without the check, so a refusal means something"
    assert set(wrote) <= {file.name for file in files}
    shutil.rmtree(tmp_path / "canary")
    (tmp_path / "canary").mkdir()
    for file in files:
        assert find_code(file), f"{file.name} is accepted"
        opened = subprocess.run(
            [sys.executable, "-m", "passsearch", "analyze", file], capture_output=True, text=True, check=False
        )
        assert opened.returncode == 2 and len(opened.stderr.splitlines()) == 1, opened.stderr
    assert not list((tmp_path / "canary").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "torch", "mxnet"])
def test_honest_files_of_a_framework_are_accepted(tmp_path: Path, framework: str) -> None:
    pytest.importorskip(framework)
    run(f"honest_{framework}.py", tmp_path)
    files = [file for file in sorted(tmp_path.iterdir()) if file.suffix != ".params"]
    assert {file.name: code for file in files if (code := find_code(file))} == {}
    assert len(files) >= {"tensorflow": 20, "torch": 8, "mxnet": 3}[framework]
