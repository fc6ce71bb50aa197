"""Compiled networks as functions in a process with the compiler; what needs PyTorch is skipped without it."""

import os
import subprocess
import sys
import sysconfig
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import passsearch
from passsearch.api import torch_backend
from passsearch.api.compiled_function import own_toolchain
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import Toolchain

PROGRAMS = Path(__file__).parent / "programs"


def run(python: Path, program: str, *arguments: str) -> None:
    """Run a program of the tests; its assertions are those of the test."""
    root = str(Path(passsearch.__file__).parents[1])
    done = subprocess.run(
        [str(python), str(PROGRAMS / program), *arguments],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def version(python: Path) -> str:
    print_version = "import sys; print(*sys.version_info[:2])"
    return subprocess.run([str(python), "-c", print_version], capture_output=True, text=True, check=True).stdout


def test_a_network_is_a_function_of_arrays(relax: Toolchain, tmp_path: Path) -> None:
    if version(relax.python) != version(Path(sys.executable)):
        pytest.skip("the toolchain's interpreter cannot use this interpreter's packages")
    run(relax.python, "call_networks.py", sysconfig.get_path("purelib"), str(tmp_path))


def test_a_pipeline_is_a_pass_for_the_compiler(relax: Toolchain) -> None:
    if version(relax.python) != version(Path(sys.executable)):
        pytest.skip("the toolchain's interpreter cannot use this interpreter's packages")
    run(relax.python, "compile_by_pipeline.py", sysconfig.get_path("purelib"))


def test_a_module_is_a_function_of_tensors(relax: Toolchain, tmp_path: Path) -> None:
    imports = [sys.executable, relax.python]
    both = [Path(python) for python in imports if not subprocess.run([python, "-c", "import torch, tvm"]).returncode]
    if not both or version(both[0]) != version(Path(sys.executable)):
        pytest.skip("no interpreter has both PyTorch and the compiler")
    run(both[0], "call_modules.py", sysconfig.get_path("purelib"), str(tmp_path))


def test_pytorch_finds_the_backend() -> None:
    config = ConfigParser()
    config.read(Path(passsearch.__file__).parents[1] / "setup.cfg")
    name, _, entry = config["options.entry_points"]["torch_dynamo_backends"].strip().partition(" = ")
    module, _, function = entry.partition(":")
    assert name == "passsearch" and callable(getattr(import_module(module), function))
    assert torch_backend.EXTRA in config["options.extras_require"]


def test_the_backend_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_backend, "own_toolchain", lambda: None)
    with pytest.raises(EnvironmentFault, match=r"needs TVM beside PyTorch in .*\[torch-compile\]"):
        torch_backend.compile_graph(None, [])
    with pytest.raises(UserError, match="Unknown option `trials`"):
        torch_backend.compile_graph(None, [], options={"trials": 3})


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is no folder that compile has written: compilation\.json"):
        passsearch.load(tmp_path)


def test_an_interpreter_without_that_compiler_says_how_to_get_it(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    if Path(sys.executable) == relax.python or own_toolchain() is not None:
        pytest.skip("this interpreter has a compiler")
    compiled = passsearch.compile(tiny_network, to=tmp_path / "deploy", toolchain=relax.name, rivals=[])
    with pytest.raises(UserError, match=r"This needs TVM .* which has none; run there: pip install -e '\.\[relax\]'"):
        compiled(np.zeros(1))
