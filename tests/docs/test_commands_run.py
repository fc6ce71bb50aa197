"""Commands of the documentation do what their pages say: the quick ones always, the tutorial as a slow test."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.cli import app
from passsearch.toolchain import Toolchain

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "guide" / "tutorial.md").read_text()
ENDINGS = {**dict.fromkeys(("audit", "compare", "explore"), (0, 1)), "tune": (0, 4, 5)}
"""Exit statuses of commands that may answer no, or leave it open: a network this small is measured in microseconds."""

FORMS = ("runs/bert",)
"""Parts of commands that only show their form, because the tutorial has no such file."""


def fenced(language: str, *, text: str = TUTORIAL) -> list[str]:
    found = re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def tutorial_lines() -> list[str]:
    """Return the lines of the tutorial's commands after those that install."""
    lines = [line.split("   ")[0] for block in fenced("") for line in block.splitlines()]
    return [line for line in lines if re.match(r"passsearch (?!toolchain)|python deploy|\./run_model", line)]


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["-h"],
        ["catalog", "list"],
        ["catalog", "show", "FuseOps"],
        ["toolchain", "list"],
        ["runs", "list"],
    ],
    ids=" ".join,
)
def test_commands_that_only_read_work_anywhere(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(words) == 0
    assert capsys.readouterr().out


def test_the_tutorial_has_its_commands() -> None:
    kinds = {line.split()[1] for line in tutorial_lines() if line.startswith("passsearch")}
    assert kinds >= {
        "compile",
        "recommend",
        "analyze",
        "tune",
        "report",
        "explore",
        "catalog",
        "export",
        "compare",
        "audit",
    }


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(relay: Toolchain, relax: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for line in tutorial_lines():
        if any(name in line for name in FORMS):
            continue
        # What step 3 tuned is deployed with its own toolchain.
        command = re.sub(r"^python ", f"{relax.python} ", line)
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        allowed = ENDINGS.get(line.split()[1], (0,))
        assert done.returncode in allowed, f"{line}\n{done.stdout}\n{done.stderr}"
    for code in fenced("python"):
        if "load_pipeline" in code:
            continue  # in an interpreter with TVM
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
