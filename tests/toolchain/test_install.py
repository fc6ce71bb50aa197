import json
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import ProbeResult, Toolchain, get_toolchain, install, is_current, list_toolchains
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.pip import Pip

install_module = import_module("passsearch.toolchain.install")  # the package has a function of that name


@pytest.fixture
def host() -> HostPython:
    here = describe(Path(sys.executable))
    if not here.is_supported_platform:
        pytest.skip(f"no wheels for {here.platform}")
    return here


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, toolchain: Toolchain) -> list[Path]:
    """Installs that fetch nothing; yields the lock files pip was given."""
    locks: list[Path] = []

    def environment(folder: Path, *, base: HostPython) -> Path:
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(base.python)
        (folder / "bin" / "pip").touch()
        (folder / "lib" / "python3.0" / "site-packages").mkdir(parents=True)
        return python

    answer = {name: getattr(toolchain, name) for name in ProbeResult.__dataclass_fields__}
    monkeypatch.setattr(install_module, "make_environment", environment)
    monkeypatch.setattr(install_module, "probe", lambda python: ProbeResult(**answer))
    monkeypatch.setattr(Pip, "install", lambda self, lock, **options: locks.append(lock))
    return locks


def _left(data_folder: Path) -> list[str]:
    return sorted(path.name for path in (data_folder / "toolchains").iterdir())


def test_install_is_idempotent(data_folder: Path, host: HostPython, quick: list[Path]) -> None:
    stages: list[str] = []
    made = install("relay", progress=stages.append)
    assert made == get_toolchain("relay") == install("relay")
    assert len(quick) == 2
    assert stages[0].startswith("making an environment")
    assert _left(data_folder) == ["relay"]
    assert made.python == data_folder / "toolchains" / "relay" / "bin" / "python"
    assert not (made.python.parent / "pip").exists()


def test_changed_lock_file_installs_again(data_folder: Path, host: HostPython, quick: list[Path]) -> None:
    made = install("relay")
    marker = data_folder / "toolchains" / "relay" / "passsearch.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"digest": "older"}))
    assert not is_current(made)
    assert is_current(install("relay"))
    assert len(quick) == 4
    assert _left(data_folder) == ["relay"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EnvironmentFault("no network")])
def test_interrupted_install_leaves_nothing(
    data_folder: Path,
    host: HostPython,
    quick: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def interrupted(self: Pip, lock: Path, **options: object) -> None:
        raise error

    monkeypatch.setattr(Pip, "install", interrupted)
    with pytest.raises(type(error)):
        install("relay")
    assert _left(data_folder) == []
    assert list_toolchains() == ()


def test_failed_update_keeps_the_old_environment(
    data_folder: Path, host: HostPython, quick: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = install("relay")
    (data_folder / "toolchains" / "relay" / "passsearch.json").write_text("{}")

    def offline(self: Pip, lock: Path, **options: object) -> None:
        raise EnvironmentFault("no network")

    monkeypatch.setattr(Pip, "install", offline)
    with pytest.raises(EnvironmentFault, match="no network"):
        install("relay")
    assert get_toolchain("relay") == made


def test_leftovers_of_killed_installs_are_swept(data_folder: Path, host: HostPython, quick: list[Path]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (data_folder / "toolchains" / f"relay.partial-{ended.pid}" / "bin").mkdir(parents=True)
    install("relay")
    assert _left(data_folder) == ["relay"]


def test_offline_error_names_what_is_missing_and_what_to_do(
    data_folder: Path, host: HostPython, tmp_path: Path
) -> None:
    empty = tmp_path / "wheels"
    empty.mkdir()
    with pytest.raises(EnvironmentFault) as caught:
        install("relay", find_links=empty)
    text = str(caught.value)
    assert text.startswith("Could not fetch attrs==")
    assert "passsearch toolchain install relay --find-links FOLDER" in text
    assert "\n" not in text
    assert _left(data_folder) == []


def test_folder_of_wheels_must_exist(data_folder: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        install("relay", find_links=Path("/nonexistent"))


def test_misspelt_dialect_is_proposed(data_folder: Path) -> None:
    with pytest.raises(UserError, match="did you mean `relay`"):
        install("rellay")


def test_name_of_a_users_toolchain_is_not_taken_over(
    data_folder: Path, toolchain: Toolchain, quick: list[Path]
) -> None:
    install_module.put(replace(toolchain, name="relay"))
    with pytest.raises(UserError, match="toolchain remove relay"):
        install("relay")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"machine": "aarch64"}, "passsearch toolchain add NAME --python PATH"),
        ({"system": "Darwin"}, "passsearch toolchain add NAME --python PATH"),
        ({"libc": ""}, "no glibc"),
        ({"version": (3, 14, 1)}, r"needs Python 3\.10 to 3\.13, but this is Python 3\.14\.1"),
        ({"has_venv": False}, "lacks `venv` or `ensurepip`"),
    ],
)
def test_platform_without_wheels(
    data_folder: Path,
    host: HostPython,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    expected: str,
) -> None:
    monkeypatch.setattr(install_module, "describe", lambda python: replace(host, **change))
    with pytest.raises(EnvironmentFault, match=expected):
        install("relay")
    assert list_toolchains() == ()


def test_full_disk_is_said_before_the_download(
    data_folder: Path, host: HostPython, quick: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_module, "DISK_BYTES", 10**18)
    with pytest.raises(EnvironmentFault, match="GB are needed"):
        install("relay")
    assert quick == []


@pytest.mark.parametrize("name", DIALECTS)
def test_every_line_of_the_lock_files_is_pinned_and_hashed(name: str) -> None:
    for lock in DIALECTS[name].requirements.glob("*.txt"):
        text = lock.read_text().replace("\\\n", "")
        for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
            assert "==" in line
            assert "--hash=sha256:" in line


def test_interrupt_ends_everything_pip_started(
    tmp_path: Path, host: HostPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tmp_path / "late"
    base = tmp_path / "python"
    base.write_text(f"#!/bin/sh\n(sleep 1; touch {late}) & wait\n")
    base.chmod(0o755)
    pip = import_module("passsearch.toolchain.pip")
    monkeypatch.setattr(pip, "_VENV_TIMEOUT_S", 0.2)
    with pytest.raises(EnvironmentFault, match="did not end"):
        pip.make_environment(tmp_path / "env", base=replace(host, python=str(base)))
    time.sleep(1.2)
    assert not late.exists()
