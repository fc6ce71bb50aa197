"""``--verbose`` and ``--log-file``: what is logged where, and that results stay clean."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.core import NOTICE_LOG

Run = Callable[..., Any]
RESULT = Path(__file__).parents[1] / "report" / "data" / "result.json"


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with a result; reading it logs one line of INFO and one of DEBUG."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text(RESULT.read_text())

    def read_result(run: Path) -> dict[str, Any]:
        logger = logging.getLogger("passsearch.store.run_folder")
        logger.info("reading the result")
        logger.debug("because of the test")
        logging.getLogger("another_library").error("not ours")
        document: dict[str, Any] = json.loads((run / "result.json").read_text())
        return document

    monkeypatch.setattr("passsearch.store.read_result", read_result)
    return tmp_path / "run"


def test_without_options_nothing_is_logged(passsearch: Run, run_folder: Path) -> None:
    assert passsearch("report", run_folder).err == ""


@pytest.mark.parametrize("options", [(), ("-v",)], ids=["quiet", "verbose"])
def test_notices_are_printed_once_with_and_without_the_log(
    passsearch: Run, run_folder: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    def read_result(run: Path) -> dict[str, Any]:
        logging.getLogger(NOTICE_LOG).warning("a line is damaged")
        document: dict[str, Any] = json.loads((run / "result.json").read_text())
        return document

    monkeypatch.setattr("passsearch.store.read_result", read_result)
    assert passsearch("report", run_folder, *options).err.count("a line is damaged") == 1


@pytest.mark.parametrize("options", [("-v",), ("--verbose",)])
def test_verbose_logs_info_to_standard_error(passsearch: Run, run_folder: Path, options: tuple[str, ...]) -> None:
    answer = passsearch("report", run_folder, "--json", *options)

    assert json.loads(answer.out) == json.loads(RESULT.read_text())
    assert answer.err.endswith(" INFO passsearch.store.run_folder: reading the result\n")
    assert answer.err.count("\n") == 1


def test_verbose_twice_adds_debug(passsearch: Run, run_folder: Path) -> None:
    for answer in (
        passsearch("report", run_folder, "-vv"),
        passsearch("-vv", "report", run_folder),
        passsearch("-v", "report", run_folder, "-v"),
    ):
        assert "DEBUG passsearch.store.run_folder: because of the test" in answer.err
        assert answer.err.count("reading the result") == 1
        assert "not ours" not in answer.err


def test_options_stand_before_or_after_the_command(passsearch: Run, tmp_path: Path) -> None:
    for arguments in (("-v", "catalog", "list"), ("catalog", "-v", "list"), ("catalog", "list", "-v")):
        assert passsearch(*arguments, "--log-file", tmp_path / "log").code == 0
    assert (tmp_path / "log").read_text().count("exit status 0") == 3


def test_a_log_file_has_everything_with_timestamps(passsearch: Run, run_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "passsearch.log"
    answer = passsearch("report", run_folder, "--log-file", file)
    lines = file.read_text().splitlines()

    assert answer.err == ""
    assert f"command: passsearch report {run_folder} --log-file {file}" in lines[0]
    assert "INFO MainThread passsearch.store.run_folder: reading the result" in lines[1]
    assert "DEBUG MainThread passsearch.store.run_folder: because of the test" in lines[2]
    assert all(line[:4].isdigit() and line[10] == " " for line in lines)


def test_a_log_file_grows_from_command_to_command(passsearch: Run, run_folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        passsearch("report", run_folder, "--log-file", tmp_path / "log")
    assert (tmp_path / "log").read_text().count("reading the result") == 2


def test_a_log_file_has_the_traceback_of_an_error(passsearch: Run, run_folder: Path, tmp_path: Path) -> None:
    (run_folder / "result.json").unlink()
    answer = passsearch("report", run_folder, "--log-file", tmp_path / "log")

    assert answer.code == 3
    assert answer.err.count("\n") == 1
    assert "FileNotFoundError" in (tmp_path / "log").read_text()
    assert "exit status 3" in (tmp_path / "log").read_text()


def test_a_log_file_that_cannot_be_written_is_refused(passsearch: Run, run_folder: Path, tmp_path: Path) -> None:
    answer = passsearch("report", run_folder, "--log-file", tmp_path / "none" / "log")

    assert (answer.code, answer.out) == (2, "")
    assert "Cannot write the log file" in answer.err and "--log-file" in answer.err


def test_a_command_leaves_the_logger_as_it_was(passsearch: Run, run_folder: Path, tmp_path: Path) -> None:
    logger = logging.getLogger("passsearch")
    before = (logger.level, list(logger.handlers))
    passsearch("report", run_folder, "-vv", "--log-file", tmp_path / "log")
    assert (logger.level, logger.handlers) == before


def test_log_lines_go_through_a_replaced_standard_error(
    passsearch: Run, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress bar replaces ``sys.stderr`` while it is shown; a log line must not be written into the bar."""
    lines: list[str] = []

    class Bar:
        def write(self, text: str) -> int:
            lines.append(text)
            return len(text)

    def read_result(_: Path) -> dict[str, Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stderr", Bar())
            logging.getLogger("passsearch.store").info("reading")
        return dict(json.loads(RESULT.read_text()))

    monkeypatch.setattr("passsearch.store.read_result", read_result)
    assert passsearch("report", run_folder, "-v").err == ""
    assert "reading" in lines[0]


@pytest.mark.parametrize("command", [(), ("tune",), ("toolchain", "install"), ("catalog", "check")])
def test_every_help_documents_the_options(passsearch: Run, command: tuple[str, ...]) -> None:
    text = passsearch(*command, "--help").out
    assert "-v, --verbose" in text and "--log-file FILE" in text
