"""The choice of the C compiler that links kernels, in the library and in the copy beside an exported script."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from passsearch.dialects import DIALECTS
from passsearch.standalone.deployment import linker as linker_module
from passsearch.standalone.deployment.linker import find_linker

Programs = Callable[..., None]
CHOICES = [
    ("gcc", "gcc"),
    ("ccache gcc", "gcc"),
    ("ccache gcc -m64", "gcc"),
    ("clang", "clang"),
    ("", "c++"),
    ("icc", "c++"),
    ("ccache icc", "c++"),
]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Makes a folder with empty programs of these names the whole search path."""

    def install(*names: str) -> None:
        for name in names:
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return install


@pytest.mark.parametrize(("variable", "name"), CHOICES)
def test_the_compiler_that_cc_names_links_kernels(
    variable: str, name: str, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("ccache", "c++", "gcc", "clang")
    monkeypatch.setenv("CC", variable)
    assert find_linker() == str(tmp_path / name)


def test_a_machine_without_a_c_compiler_is_reported(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs("ccache")
    monkeypatch.setenv("CC", "ccache gcc")
    with pytest.raises(FileNotFoundError, match="install gcc or clang"):
        find_linker()


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_the_exported_script_chooses_the_same_linker(name: str, tmp_path: Path) -> None:
    _, *beside = DIALECTS[name].script
    assert Path(linker_module.__file__) in beside
    for file in beside:
        shutil.copyfile(file, tmp_path / file.name)
    checks = next(file.stem for file in beside if "def require_linker" in file.read_text())
    done = subprocess.run(
        [sys.executable, "-c", f"import {checks}; print({checks}.require_linker())"],
        cwd=tmp_path,
        env={**os.environ, "CC": "env gcc", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == shutil.which("gcc")


EXPORTED = sorted({file for entry in DIALECTS.values() for file in entry.script if file.suffix == ".py"})


@pytest.mark.parametrize("path", EXPORTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_exported_files_parse_in_the_oldest_python_that_has_their_compiler(path: Path) -> None:
    oldest = (3, 10) if path.parent.name == "relax" else (3, 8)
    ast.parse(path.read_text(), feature_version=oldest)
