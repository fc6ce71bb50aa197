"""The wheel works in an environment without the checkout."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from passsearch.toolchain import Toolchain, data_folder

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_network_is_compiled_by_the_wheel_alone(relax: Toolchain, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = tmp_path / "source"
    for name in ("passsearch", "pass_catalog"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]
    subprocess.run([*pip, *build], check=True)
    [wheel] = tmp_path.glob("passsearch-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([str(python), *pip[1:], "install", str(wheel)], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"XDG_DATA_HOME": str(data_folder().parent)}
    command = [str(python.with_name("passsearch")), "compile", "zoo:resnet_tiny", "--to", str(tmp_path / "deploy")]
    done = subprocess.run(
        [*command, "--toolchain", relax.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "deploy" / "built").is_dir()
    subprocess.run([*command[:1], "examples", "--to", "examples"], cwd=tmp_path, env=environment, check=True)
    apply = ["apply", "zoo:resnet_tiny", "--catalog", "examples/broken_passes.yaml", "--pipeline", "Raises"]
    failed = subprocess.run(
        [*command[:1], *apply, "--toolchain", relax.name],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "broken_passes.py" in failed.stdout and "KeyError" in failed.stdout
