"""The steps of an exported container file, without a container engine: in a clean environment and an empty folder."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import passsearch
from passsearch.toolchain import Toolchain


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_the_steps_of_the_container_file_build_and_run_the_network(
    dialect: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    toolchain: Toolchain = request.getfixturevalue(dialect)
    result = passsearch.tune(
        "zoo:resnet_tiny", toolchain=toolchain.name, trials=0, confirm=0, timeout=120, rivals=[], out=tmp_path / "run"
    )
    deploy = result.export(tmp_path / "deploy")
    text = (deploy / "Containerfile").read_text()
    root = tmp_path / "root"
    _make_environment(root / "python", name=re.findall(r"python:([\d.]+)-slim", text)[0])

    for line in text.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "COPY":
            source, destination = rest.split()
            _copy(deploy / source, root / destination.lstrip("/"))
        # The base image and Debian's compiler are the machine's own.
        elif (instruction == "RUN" and not rest.startswith("apt-get")) or instruction == "CMD":
            command = shlex.join(json.loads(rest)) if instruction == "CMD" else rest
            _run(command, root)

    assert (root / "built").is_dir()


def _make_environment(folder: Path, *, name: str) -> None:
    """Make an environment with the Python of the container's base image."""
    interpreter = shutil.which(f"python{name}")
    if interpreter is None:
        pytest.skip(f"no Python {name} here")
    made = subprocess.run([interpreter, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no Python {name} with venv here: {made.stderr}")


def _copy(source: Path, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, destination)
    else:
        shutil.copy(source, destination)


def _run(command: str, root: Path) -> None:
    """Run a command with absolute paths below another root, as a container has them, and its own Python."""
    inside = re.sub(r"(?<![\w.])/(tmp|network|built)", rf"{root}/\1", command)
    path = f"{root / 'python' / 'bin'}:/usr/bin:/bin"
    done = subprocess.run(inside, shell=True, env={"PATH": path}, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{inside}\n{done.stdout}\n{done.stderr}"
