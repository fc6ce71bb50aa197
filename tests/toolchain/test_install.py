import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from passsearch.dialects import DIALECTS, Version
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import ProbeResult, Toolchain, get_toolchain, install, is_current, list_toolchains
from passsearch.toolchain.host_python import HostPython, describe
from passsearch.toolchain.install import DISK_BYTES, InstallSteps, installed_frameworks
from passsearch.toolchain.pip import Pip, make_environment
from passsearch.toolchain.recipe import make_recipe
from passsearch.toolchain.registry import register


@dataclass(frozen=True)
class FakePip(Pip):
    """A pip that installs nothing.

    Attributes:
        packages: Receives the names of the lock files and requirements.
        install_error: Raised for a lock file.
        resolve_error: Raised for a requirement.
    """

    packages: list[str] = field(default_factory=list)
    install_error: BaseException | None = None
    resolve_error: BaseException | None = None

    def install(self, lock: Path, *, wheel_python: Version | None = None) -> None:
        if self.install_error is not None:
            raise self.install_error
        self.packages.append(lock.name)

    def resolve(self, requirement: str, *, locks: Sequence[Path]) -> None:
        if self.resolve_error is not None:
            raise self.resolve_error
        self.packages.append(requirement)


@dataclass(frozen=True)
class Installer:
    """Calls ``install`` with steps that download nothing.

    Attributes:
        steps: The steps of the installation.
        packages: Names of the lock files and requirements that pip was called with.
    """

    steps: InstallSteps
    packages: list[str]

    def __call__(self, dialect: str, *, frameworks: Sequence[str] = (), **options: Any) -> Toolchain:
        return install(dialect, frameworks=frameworks, steps=self.steps, **options)

    def with_steps(self, **steps: Any) -> "Installer":
        """An installer with some other steps."""
        return replace(self, steps=replace(self.steps, **steps))

    def on(self, host: HostPython) -> "Installer":
        """An installer for another base interpreter."""
        return self.with_steps(describe_host=lambda python: host)

    def failing(self, **errors: BaseException) -> "Installer":
        """An installer whose pip raises errors."""
        return self.with_steps(make_pip=partial(FakePip, packages=self.packages, **errors))


@pytest.fixture
def host() -> HostPython:
    here = describe(Path(sys.executable))
    if not here.is_supported_platform:
        pytest.skip(f"no wheels for {here.platform}")
    return here


@pytest.fixture
def installer(host: HostPython, toolchain: Toolchain) -> Installer:
    def create_environment(folder: Path, *, base: HostPython) -> Path:
        python = folder / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(base.python)
        (folder / "bin" / "pip").touch()
        (folder / "lib" / "python3.0" / "site-packages").mkdir(parents=True)
        return python

    names = ProbeResult.__dataclass_fields__.keys() & Toolchain.__dataclass_fields__.keys()
    result = ProbeResult(**{name: getattr(toolchain, name) for name in names})
    packages: list[str] = []
    steps = InstallSteps(
        create_environment=create_environment,
        make_pip=partial(FakePip, packages=packages),
        probe_tvm=lambda python: result,
    )
    return Installer(steps, packages)


@pytest.fixture
def installer_311(installer: Installer, host: HostPython) -> Installer:
    """An installer for Python 3.11, which can have every framework."""
    return installer.on(replace(host, version=(3, 11, 7)))


def _environments(data_folder: Path) -> list[str]:
    return sorted(path.name for path in (data_folder / "toolchains").iterdir())


def _edit_marker(data_folder: Path, **fields: Any) -> None:
    marker = data_folder / "toolchains" / "relay" / "passsearch.json"
    content = json.loads(marker.read_text()) | fields
    marker.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_install_is_idempotent(data_folder: Path, installer: Installer) -> None:
    stages: list[str] = []
    toolchain = installer("relay", progress=stages.append)
    assert toolchain == get_toolchain("relay") == installer("relay")
    assert len(installer.packages) == 2
    assert stages[0].startswith("making an environment")
    assert _environments(data_folder) == ["relay"]
    assert toolchain.python == data_folder / "toolchains" / "relay" / "bin" / "python"
    assert not (toolchain.python.parent / "pip").exists()


def test_changed_lock_file_installs_again(data_folder: Path, installer: Installer) -> None:
    toolchain = installer("relay")
    _edit_marker(data_folder, digest="older")
    assert not is_current(toolchain)
    assert is_current(installer("relay"))
    assert len(installer.packages) == 4
    assert _environments(data_folder) == ["relay"]


@pytest.mark.usefixtures("data_folder")
def test_frameworks_have_a_base_lock_of_their_own(installer_311: Installer) -> None:
    installer_311("relay", frameworks=("torch", "tensorflow"))
    packages = ["py311-frameworks.txt", "hhb-tvm.txt", "py311-tensorflow.txt", "torch==2.13.0"]
    assert installer_311.packages == packages


@pytest.mark.usefixtures("data_folder")
def test_frameworks_that_pin_nothing_share_the_lock(installer_311: Installer) -> None:
    installer_311("relax", frameworks=("torch",))
    assert installer_311.packages == ["py311.txt", "torch==2.13.0"]


@pytest.mark.usefixtures("data_folder")
def test_a_toolchain_with_more_frameworks_than_requested_is_current(installer_311: Installer) -> None:
    toolchain = installer_311("relay", frameworks=("mxnet", "torch"))
    assert installed_frameworks(toolchain) == ("mxnet", "torch")
    count = len(installer_311.packages)
    assert toolchain == installer_311("relay") == installer_311("relay", frameworks=("torch",))
    assert is_current(toolchain)
    assert len(installer_311.packages) == count


@pytest.mark.usefixtures("data_folder")
def test_a_new_framework_keeps_the_others(installer_311: Installer) -> None:
    for name in ("mxnet", "tensorflow"):
        installer_311.packages.clear()
        installer_311("relay", frameworks=(name,))
    assert {"py311-mxnet.txt", "py311-tensorflow.txt"} < set(installer_311.packages)


def test_an_update_keeps_the_frameworks(data_folder: Path, installer_311: Installer) -> None:
    toolchain = installer_311("relay", frameworks=("mxnet",))
    _edit_marker(data_folder, digest="older")
    installer_311.packages.clear()
    assert is_current(installer_311("relay")) and is_current(toolchain)
    assert "py311-mxnet.txt" in installer_311.packages


def test_a_marker_without_frameworks_is_current(data_folder: Path, installer: Installer) -> None:
    toolchain = installer("relay")
    _edit_marker(data_folder, frameworks=None)
    assert is_current(toolchain)


def test_the_digest_depends_on_exactly_the_lock_files_in_use(tmp_path: Path, host: HostPython) -> None:
    folder = Path(shutil.copytree(DIALECTS["relay"].requirements, tmp_path / "requirements"))
    dialect = replace(DIALECTS["relay"], requirements=folder)
    recipe = make_recipe(dialect, replace(host, version=(3, 11, 7)), frameworks=("mxnet", "torch"))
    digests = [recipe.digest]
    for name in ("py311-frameworks.txt", "hhb-tvm.txt", "py311-mxnet.txt"):
        (folder / name).write_text(f"{name} was changed")
        digests.append(recipe.digest)
    digests.append(replace(recipe, frameworks=recipe.frameworks[:1]).digest)
    assert len(set(digests)) == len(digests)
    (folder / "py311-tensorflow.txt").write_text("changed")
    (folder / "py311.txt").write_text("changed")
    assert recipe.digest in digests


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EnvironmentFault("no network")])
def test_an_interrupted_addition_keeps_the_toolchain(
    data_folder: Path, installer_311: Installer, error: BaseException
) -> None:
    toolchain = installer_311("relay", frameworks=("mxnet",))
    with pytest.raises(type(error)):
        installer_311.failing(resolve_error=error)("relay", frameworks=("torch",))
    assert get_toolchain("relay") == toolchain == installer_311("relay", frameworks=("mxnet",))
    assert _environments(data_folder) == ["relay"]


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize(
    ("name", "advice"),
    [("tensorflw", "did you mean `tensorflow`?"), ("caffe", "choose from: mxnet, tensorflow, torch")],
)
def test_unknown_framework_is_refused(name: str, advice: str) -> None:
    with pytest.raises(UserError, match=f"Unknown framework `{name}`") as refusal:
        install("relay", frameworks=("torch", name))
    assert advice in str(refusal.value)


@pytest.mark.usefixtures("data_folder")
def test_python_without_framework_wheels(host: HostPython, installer: Installer) -> None:
    installer_312 = installer.on(replace(host, version=(3, 12, 1)))
    expected = r"needs Python 3\.10 to 3\.11, but .* 3\.12\.1; .*install relay --with torch --python PATH"
    with pytest.raises(EnvironmentFault, match=expected):
        installer_312("relay", frameworks=("torch",))
    installer_312("relay")
    assert "py312.txt" in installer_312.packages


@pytest.mark.usefixtures("data_folder")
def test_every_framework_requires_more_disk_space(installer_311: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")._replace(free=DISK_BYTES)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    for name in ("mxnet", "tensorflow", "torch"):
        with pytest.raises(EnvironmentFault, match="GB are needed"):
            installer_311("relay", frameworks=(name,))
    installer_311("relay")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EnvironmentFault("no network")])
def test_interrupted_install_leaves_nothing(data_folder: Path, installer: Installer, error: BaseException) -> None:
    with pytest.raises(type(error)):
        installer.failing(install_error=error)("relay")
    assert _environments(data_folder) == []
    assert list_toolchains() == ()


def test_failed_update_keeps_the_old_environment(data_folder: Path, installer: Installer) -> None:
    toolchain = installer("relay")
    (data_folder / "toolchains" / "relay" / "passsearch.json").write_text("{}")
    with pytest.raises(EnvironmentFault, match="no network"):
        installer.failing(install_error=EnvironmentFault("no network"))("relay")
    assert get_toolchain("relay") == toolchain


def test_leftovers_of_killed_installs_are_deleted(data_folder: Path, installer: Installer) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    (data_folder / "toolchains" / f"relay.partial-{process.pid}" / "bin").mkdir(parents=True)
    installer("relay")
    assert _environments(data_folder) == ["relay"]


@pytest.mark.usefixtures("host")
def test_offline_error_names_the_missing_package_and_the_next_step(data_folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "wheels"
    empty.mkdir()
    with pytest.raises(EnvironmentFault) as refusal:
        install("relay", find_links=empty)
    text = str(refusal.value)
    assert text.startswith("Could not fetch attrs==")
    assert "passsearch toolchain install relay --find-links FOLDER" in text
    assert "\n" not in text
    assert _environments(data_folder) == []


@pytest.mark.usefixtures("data_folder")
def test_folder_of_wheels_must_exist() -> None:
    with pytest.raises(UserError, match="is not a folder"):
        install("relay", find_links=Path("/nonexistent"))


@pytest.mark.usefixtures("data_folder")
def test_misspelled_dialect_gets_a_proposal() -> None:
    with pytest.raises(UserError, match="did you mean `relay`"):
        install("rellay")


@pytest.mark.usefixtures("data_folder")
def test_a_toolchain_of_the_user_is_not_replaced(toolchain: Toolchain, installer: Installer) -> None:
    register(replace(toolchain, name="relay"))
    with pytest.raises(UserError, match="toolchain remove relay"):
        installer("relay")


@pytest.mark.usefixtures("data_folder")
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
def test_platform_without_wheels(host: HostPython, change: dict[str, Any], expected: str) -> None:
    steps = InstallSteps(describe_host=lambda python: replace(host, **change))
    with pytest.raises(EnvironmentFault, match=expected):
        install("relay", steps=steps)
    assert list_toolchains() == ()


@pytest.mark.usefixtures("data_folder")
def test_full_disk_is_reported_before_the_download(installer: Installer) -> None:
    with pytest.raises(EnvironmentFault, match="GB are needed"):
        installer.with_steps(disk_bytes=10**18)("relay")
    assert installer.packages == []


def test_a_dependency_has_the_version_of_the_lock_file(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    _write_wheel(wheels, "framework", requires="needed")
    _write_wheel(wheels, "needed", version="2.0")
    lock = tmp_path / "base.txt"
    lock.write_text("# made\nneeded==1.0 \\\n    --hash=sha256:00\n")
    python = make_environment(tmp_path / "env", base=describe(Path(sys.executable)))
    pip = Pip(python=python, install_arguments="relay --with framework", find_links=wheels)
    # pip names the package, so it did not demand hashes, which it would with the whole lock file as constraints.
    with pytest.raises(EnvironmentFault, match=r"framework==1\.0"):
        pip.resolve("framework==1.0", locks=(lock,))
    _write_wheel(wheels, "needed")
    pip.resolve("framework==1.0", locks=(lock,))
    assert sorted(folder.stem for folder in pip.site_packages.glob("*ed-*")) == ["needed-1.0"]


def _write_wheel(folder: Path, name: str, *, version: str = "1.0", requires: str = "") -> None:
    """Write an empty package that pip installs."""
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


def test_a_timeout_kills_all_processes_that_pip_started(tmp_path: Path, programs: Path, host: HostPython) -> None:
    base = replace(host, python=str(programs / "starts_a_child.sh"))
    with pytest.raises(EnvironmentFault, match="did not end"):
        make_environment(tmp_path / "env", base=base, timeout_s=0.2)
    time.sleep(1.2)
    assert list(tmp_path.iterdir()) == []
