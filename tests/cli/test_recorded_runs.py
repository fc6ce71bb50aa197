"""Whole run folders that this program wrote on another day: each is read, and continued or refused in one line."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.cli import main
from passsearch.core import Pipeline
from passsearch.store import RESULT
from passsearch.toolchain import Toolchain

FOLDERS = Path(__file__).parents[1] / "data" / "run_folders"
CONFIRMED = ("--trials", "4", "--confirm", "2", "--timeout", "60", "--fresh")
KILLED = ("--objective", "compile_time", "--trials", "2", "--confirm", "0", "--passes", "LegalizeOps,FoldConstant")
RUNS = {
    "relay-finished": ("--toolchain", "relay", *CONFIRMED),
    "relax-finished": ("--toolchain", "relax", *CONFIRMED),
    "relax-killed": ("--toolchain", "relax", *KILLED, "--fresh"),
}
"""Options of ``tune`` that made each run; the last one was killed while it measured. Artifacts are left out."""
FINISHED = sorted(name for name in RUNS if name.endswith("finished"))


def unpack(name: str, folder: Path) -> Path:
    """Return the run folder of that name, unpacked."""
    with tarfile.open(FOLDERS / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def test_every_run_has_its_command() -> None:
    assert sorted(RUNS) == sorted(path.name.removesuffix(".tar.xz") for path in FOLDERS.glob("*.tar.xz"))


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
    assert len(lines) == 1 and f"No result in `{run}`" in lines[0]


@pytest.mark.parametrize("name", sorted(RUNS))
def test_the_same_command_continues_a_run_or_refuses_it_in_one_line(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    toolchain: Toolchain = request.getfixturevalue(name.partition("-")[0])
    run = unpack(name, tmp_path)
    shutil.copy(FOLDERS / "residual.onnx", tmp_path)
    facts, words = (run / "log.jsonl").read_bytes(), [sys.executable, "-m", "passsearch", "tune", "residual.onnx"]
    assert RUNS[name][1] == toolchain.name
    command = [*words, *RUNS[name], "--out", name, "--json"]
    python_path = os.pathsep.join([str(Path(passsearch.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment: Any = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": python_path}}
    ended = subprocess.run(command, **environment, capture_output=True, text=True, check=False)
    assert (run / "log.jsonl").read_bytes().startswith(facts)
    if ended.returncode == 0:
        result = json.loads(ended.stdout)
        assert not result["interrupted"] and result == json.loads((run / RESULT).read_text())
        return
    # Another processor, another version of the passes: the measurements of both do not go together.
    (line,) = ended.stderr.strip().splitlines()
    assert ended.returncode == 2 and not ended.stdout
    assert f"/{name}` was" in line and "--out" in line
