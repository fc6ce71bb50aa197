"""The line of the user's own code in a traceback, and the end of a log."""

import errno
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from passsearch.worker.failure_log import MOST_TRACEBACK, TITLE, last_failure, log_failure, own_line


def _error(path: Path, text: str) -> Exception:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("own", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError("it did not fail")


def test_the_innermost_own_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    error = _error(file, "import json\ndef read(text):\n    return json.loads(text)\nread('{')\n")
    assert isinstance(error, json.JSONDecodeError)
    assert own_line(error) == f"{file}, line 3"


def test_the_cause_of_an_error_is_looked_at(tmp_path: Path) -> None:
    wrapped = RuntimeError("refused")
    wrapped.__cause__ = _error(tmp_path / "own.py", "1 / 0\n")
    assert own_line(wrapped) == f"{tmp_path / 'own.py'}, line 1"


def test_an_error_of_libraries_alone_names_no_line() -> None:
    with pytest.raises(json.JSONDecodeError) as raised:
        json.loads("{")
    frames = raised.value.__traceback__
    assert frames is not None
    # Without this test's own frame.
    assert own_line(raised.value.with_traceback(frames.tb_next)) == ""


@pytest.mark.parametrize("place", ["tvm/python/tvm", "lib/python3/dist-packages/numpy"])
def test_a_compiler_elsewhere_and_packages_of_debian_are_not_the_users(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "tvm", SimpleNamespace(__path__=[str(tmp_path / "tvm/python/tvm")]))
    assert "passes.py" not in own_line(_error(folder / "passes.py", "1 / 0\n"))
    assert own_line(_error(tmp_path / "passes.py", "1 / 0\n")) == f"{tmp_path / 'passes.py'}, line 1"


def test_a_failure_is_answered_although_its_log_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(write=Mock(side_effect=OSError(errno.EDQUOT, "Disk quota exceeded")))
    monkeypatch.setattr(sys, "stderr", full)
    log_failure(OSError(errno.EDQUOT, "Disk quota exceeded"), {"verb": "build"})
    assert full.write.called


def test_the_last_failure_of_a_log_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "workers.log"
    assert last_failure(log) == ""
    log.write_text(f"{TITLE}first\n{TITLE}second\ntraceback\n")
    assert last_failure(log) == f"{TITLE}second\ntraceback\n"
    log.write_text("x" * 2 * MOST_TRACEBACK)
    assert len(last_failure(log)) == MOST_TRACEBACK
