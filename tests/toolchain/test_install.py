import json
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from passsearch.dialects import DIALECTS
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import ProbeResult, Toolchain, get_toolchain, install, is_current, list_toolchains
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.install import held_frameworks
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.recipe import make_recipe

install_module = import_module("passsearch.toolchain.install")  # the package has a function of that name


@pytest.fixture
def host() -> HostPython:
    here = describe(Path(sys.executable))
    if not here.is_supported_platform:
        pytest.skip(f"no wheels for {here.platform}")
    return here


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, toolchain: Toolchain) -> list[Path]:
    """Installs that fetch nothing; yields the lock files and requirements pip was given."""
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
    monkeypatch.setattr(Pip, "resolve", lambda self, requirement, **options: locks.append(Path(requirement)))
    return locks


@pytest.fixture
def on_311(monkeypatch: pytest.MonkeyPatch, host: HostPython) -> None:
    """Installs are based on Python 3.11, which can have every framework."""
    monkeypatch.setattr(install_module, "describe", lambda python: replace(host, version=(3, 11, 7)))


def _names(locks: list[Path]) -> list[str]:
    return [lock.name for lock in locks]


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


@pytest.mark.usefixtures("data_folder", "on_311")
def test_frameworks_have_a_base_lock_of_their_own(quick: list[Path]) -> None:
    install("relay", frameworks=("torch", "tensorflow"))
    assert _names(quick) == ["py311-frameworks.txt", "hhb-tvm.txt", "py311-tensorflow.txt", "torch==2.13.0"]


@pytest.mark.usefixtures("data_folder", "on_311")
def test_frameworks_that_pin_nothing_share_the_lock(quick: list[Path]) -> None:
    install("relax", frameworks=("torch",))
    assert _names(quick) == ["py311.txt", "torch==2.13.0"]


@pytest.mark.usefixtures("on_311")
def test_a_toolchain_that_has_more_than_asked_is_ready(data_folder: Path, quick: list[Path]) -> None:
    made = install("relay", frameworks=("mxnet", "torch"))
    assert held_frameworks(made) == ("mxnet", "torch")
    fetched = len(quick)
    assert made == install("relay") == install("relay", frameworks=("torch",))
    assert is_current(made)
    assert len(quick) == fetched


@pytest.mark.usefixtures("data_folder", "on_311")
def test_a_framework_is_added_to_those_there_are(quick: list[Path]) -> None:
    for name in ("mxnet", "tensorflow"):
        quick.clear()
        install("relay", frameworks=(name,))
    assert {"py311-mxnet.txt", "py311-tensorflow.txt"} < set(_names(quick))


@pytest.mark.usefixtures("on_311")
def test_an_update_keeps_the_frameworks(data_folder: Path, quick: list[Path]) -> None:
    made = install("relay", frameworks=("mxnet",))
    marker = data_folder / "toolchains" / "relay" / "passsearch.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"digest": "older"}))
    quick.clear()
    assert is_current(install("relay")) and is_current(made)
    assert "py311-mxnet.txt" in _names(quick)


def test_a_marker_older_than_frameworks_is_current(data_folder: Path, host: HostPython, quick: list[Path]) -> None:
    made = install("relay")
    marker = data_folder / "toolchains" / "relay" / "passsearch.json"
    older = json.loads(marker.read_text())
    del older["frameworks"]
    marker.write_text(json.dumps(older))
    assert is_current(made)


def test_digest_is_of_every_lock_file_used_and_of_no_other(tmp_path: Path, host: HostPython) -> None:
    folder = Path(shutil.copytree(DIALECTS["relay"].requirements, tmp_path / "requirements"))
    wanted = replace(DIALECTS["relay"], requirements=folder)
    recipe = make_recipe(wanted, replace(host, version=(3, 11, 7)), frameworks=("mxnet", "torch"))
    digests = [recipe.digest]
    for name in ("py311-frameworks.txt", "hhb-tvm.txt", "py311-mxnet.txt"):
        (folder / name).write_text(f"{name} was changed")
        digests.append(recipe.digest)
    digests.append(replace(recipe, frameworks=recipe.frameworks[:1]).digest)
    assert len(set(digests)) == len(digests)
    (folder / "py311-tensorflow.txt").write_text("changed")
    (folder / "py311.txt").write_text("changed")
    assert recipe.digest in digests


@pytest.mark.usefixtures("on_311")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), EnvironmentFault("no network")])
def test_interrupted_addition_keeps_what_was_there(
    data_folder: Path, quick: list[Path], monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    made = install("relay", frameworks=("mxnet",))

    def interrupted(self: Pip, requirement: str, **options: object) -> None:
        raise error

    monkeypatch.setattr(Pip, "resolve", interrupted)
    with pytest.raises(type(error)):
        install("relay", frameworks=("torch",))
    assert get_toolchain("relay") == made == install("relay", frameworks=("mxnet",))
    assert _left(data_folder) == ["relay"]


@pytest.mark.parametrize(
    ("name", "told"),
    [("tensorflw", "did you mean `tensorflow`?"), ("caffe", "choose from: mxnet, tensorflow, torch")],
)
def test_unknown_framework_is_refused(data_folder: Path, name: str, told: str) -> None:
    with pytest.raises(UserError, match=f"Unknown framework `{name}`") as caught:
        install("relay", frameworks=("torch", name))
    assert told in str(caught.value)


def test_python_without_framework_wheels(
    data_folder: Path, host: HostPython, monkeypatch: pytest.MonkeyPatch, quick: list[Path]
) -> None:
    monkeypatch.setattr(install_module, "describe", lambda python: replace(host, version=(3, 12, 1)))
    expected = r"needs Python 3\.10 to 3\.11, but .* 3\.12\.1; .*install relay --with torch --python PATH"
    with pytest.raises(EnvironmentFault, match=expected):
        install("relay", frameworks=("torch",))
    install("relay")
    assert "py312.txt" in _names(quick)


@pytest.mark.usefixtures("data_folder", "on_311", "quick")
def test_room_is_asked_for_each_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")._replace(free=install_module.DISK_BYTES)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    for name in ("mxnet", "tensorflow", "torch"):
        with pytest.raises(EnvironmentFault, match="GB are needed"):
            install("relay", frameworks=(name,))
    install("relay")


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


def test_what_is_resolved_keeps_to_the_lock_files(tmp_path: Path) -> None:
    """pip says which version it cannot have; with a hash in the constraints it would ask for one."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    _write_wheel(wheels, "framework", requires="needed")
    _write_wheel(wheels, "needed", version="2.0")
    lock = tmp_path / "base.txt"
    lock.write_text("# made\nneeded==1.0 \\\n    --hash=sha256:00\n")
    python = make_environment(tmp_path / "env", base=describe(Path(sys.executable)))
    pip = Pip(python=python, wanted="relay --with framework", find_links=wheels)
    with pytest.raises(EnvironmentFault, match=r"framework==1\.0"):
        pip.resolve("framework==1.0", locks=(lock,))
    _write_wheel(wheels, "needed")
    pip.resolve("framework==1.0", locks=(lock,))
    assert sorted(folder.stem for folder in pip.site_packages.glob("*ed-*")) == ["needed-1.0"]


def _write_wheel(folder: Path, name: str, *, version: str = "1.0", requires: str = "") -> None:
    """An empty package as pip takes it."""
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize("name", DIALECTS)
def test_frameworks_and_what_they_share_agree_on_versions(name: str) -> None:
    folder = DIALECTS[name].requirements
    for base in folder.glob("py*-frameworks.txt"):
        versions: dict[str, str] = {}
        for lock in folder.glob(base.name.replace("frameworks", "*")):
            for package, _, version in (line.split()[0].partition("==") for line in _pins(lock)):
                assert versions.setdefault(package, version) == version, f"{package} in {lock.name}"


def _pins(lock: Path) -> list[str]:
    text = lock.read_text().replace("\\\n", "")
    return list(filter(None, (line.partition("#")[0].strip() for line in text.splitlines())))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_line_of_the_lock_files_is_pinned_and_hashed(name: str) -> None:
    for lock in DIALECTS[name].requirements.glob("*.txt"):
        for line in _pins(lock):
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
