"""Whole run folders that this program wrote on another day: each is read and continued."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from record_runs import FOLDERS, NETWORK, RUNS, command
from run_folders import unpack

import passsearch
from passsearch.cli import main
from passsearch.cli.output import UNCONFIRMED_STATUS, UNDECIDED_STATUS
from passsearch.core import Pipeline
from passsearch.evaluate import open_session
from passsearch.frontends import resolve
from passsearch.search import Run, RunOptions
from passsearch.store import RESULT
from passsearch.toolchain import Toolchain

OF_MACHINE_AND_VERSION = ("device", "dialect_code", "onnxscript", "target", "threads")
"""Settings in which a run of this machine and version differs from those in the folder."""

OLD = "relax-finished-format-7"
FINISHED = [*(name for name in RUNS if name.endswith("finished")), OLD]


def test_every_folder_has_its_command() -> None:
    assert sorted([*RUNS, OLD]) == sorted(path.name.removesuffix(".tar.xz") for path in FOLDERS.glob("*.tar.xz"))


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_is_shown_listed_and_exported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = unpack(name, tmp_path / "runs")
    recorded = json.loads((run / RESULT).read_text())

    assert main(["report", str(run), "--html", str(tmp_path / "page.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == recorded
    assert recorded["best"]["pipeline"].partition(",")[0] in (tmp_path / "page.html").read_text()

    assert main(["runs", "list", str(run.parent), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert Path(row["folder"]) == run

    assert main(["export", str(run), "--to", str(tmp_path / "deploy")]) == 0
    exported = json.loads((tmp_path / "deploy" / "pipeline.json").read_text())
    assert [step["name"] for step in exported["passes"]] == [
        step.name for step in Pipeline.parse(recorded["best"]["pipeline"]).passes
    ]


def test_a_run_that_was_killed_is_refused_by_commands_on_finished_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = unpack("relax-killed", tmp_path)
    assert main(["report", str(run)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and f"No result in `{run}` yet" in lines[0]
    assert "the same command continues it" in lines[0]


@pytest.mark.parametrize("name", sorted(RUNS))
def test_the_same_command_continues_a_run(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    toolchain: Toolchain = request.getfixturevalue(name.partition("-")[0])
    assert RUNS[name][1] == toolchain.name
    run = unpack_as_of_today(name, tmp_path)
    facts = (run / "log.jsonl").read_bytes()
    ended = tune(name, folder=tmp_path)
    # What is measured anew may leave the answer open, and the time limit was used up on another day.
    assert ended.returncode in (0, UNDECIDED_STATUS, UNCONFIRMED_STATUS), ended.stderr
    result = json.loads(ended.stdout)
    assert not result["interrupted"] and result == json.loads((run / RESULT).read_text())
    assert (run / "log.jsonl").read_bytes().startswith(facts)


@pytest.mark.usefixtures("relax")
def test_a_run_of_another_processor_is_refused_in_one_line(tmp_path: Path) -> None:
    run = unpack_as_of_today("relax-killed", tmp_path)
    change_settings(run, {"device": {"name": "a processor of another day", "cores": 2}})
    facts = (run / "log.jsonl").read_bytes()
    ended = tune("relax-killed", folder=tmp_path)
    (line,) = ended.stderr.strip().splitlines()
    assert ended.returncode == 2 and not ended.stdout
    assert "a processor of another day" in line and "--out" in line
    assert (run / "log.jsonl").read_bytes() == facts


@pytest.mark.usefixtures("relax")
def test_a_run_of_an_earlier_format_is_refused_in_one_line(tmp_path: Path) -> None:
    unpack(OLD, tmp_path).rename(tmp_path / "relax-finished")
    shutil.copy(FOLDERS / NETWORK, tmp_path)
    ended = tune("relax-finished", folder=tmp_path)
    (line,) = ended.stderr.strip().splitlines()
    assert ended.returncode == 2 and "another version of passsearch (log format 7" in line


def unpack_as_of_today(name: str, folder: Path) -> Path:
    """Unpack a run beside its network, as if this machine and this version of the passes had begun it."""
    run = unpack(name, folder)
    shutil.copy(FOLDERS / NETWORK, folder)
    model = resolve(str(folder / NETWORK), inputs={}, folder=folder)
    today = Run(open_session(model, toolchain=RUNS[name][1], target=None), RunOptions((), 0)).settings
    change_settings(run, {key: today[key] for key in OF_MACHINE_AND_VERSION})
    return run


def change_settings(run: Path, settings: Mapping[str, Any]) -> None:
    """Change what a run recorded about its beginning."""
    file = run / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | dict(settings)))


def tune(name: str, *, folder: Path) -> subprocess.CompletedProcess[str]:
    """Give the command of a run again, in the folder that has the run and its network."""
    python_path = os.pathsep.join([str(Path(passsearch.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": python_path}
    return subprocess.run(command(name), cwd=folder, env=environment, capture_output=True, text=True, check=False)
