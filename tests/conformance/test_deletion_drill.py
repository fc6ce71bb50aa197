"""After one dialect's folders and its two words in the table are deleted, the other works as before."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pass_catalog
import passsearch
from passsearch.dialects import DIALECTS
from passsearch.toolchain import Toolchain

OTHER = {"relay": "relax", "relax": "relay"}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The folder of a copy of the library."""
    for package in (passsearch, pass_catalog):
        source = Path(package.__path__[0])
        shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_one_dialect_works_without_the_other(
    name: str, code: Path, small_network: Path, toolchain_of: Callable[[str], Toolchain]
) -> None:
    toolchain = toolchain_of(name)
    other = OTHER[name]
    for folder in (code / "passsearch" / "dialects" / other, code / "pass_catalog" / other):
        shutil.rmtree(folder)
    table = code / "passsearch" / "dialects" / "__init__.py"
    text = table.read_text()
    for line in re.findall(rf"^.*\b{other}\b.*$", text, re.MULTILINE):
        text = text.replace(line, re.sub(rf"(, )?\b{other}\b(\.DIALECT)?(, )?", "", line))
    table.write_text(text.replace(f"({name}.DIALECT)", f"({name}.DIALECT,)"))
    assert other not in table.read_text()
    command = (sys.executable, "-m", "passsearch", "compare", str(small_network), "--toolchain", toolchain.name)
    baseline = DIALECTS[name].default_baseline
    done = subprocess.run(
        [*command, "--pipelines", baseline, "--rounds", "2", "--processes", "1"],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and baseline in done.stdout, done.stdout + done.stderr
