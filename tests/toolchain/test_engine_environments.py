"""The environment of an engine is installed completely or not at all, and found again."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.dialects import Version
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import engine_environments, engine_python, install_engine, remove_engine
from passsearch.toolchain.host_python import describe
from passsearch.toolchain.pip import Pip

pytestmark = pytest.mark.usefixtures("data_folder")


@dataclass(frozen=True)
class FakePip(Pip):
    """A pip that installs nothing and notes what it is asked for."""

    packages: list[str] = field(default_factory=list)

    def install(self, lock: Path, *, wheel_python: Version | None = None) -> None:
        self.packages.append(lock.name)

    def resolve(self, requirement: str, *, locks: Sequence[Path], is_named: bool) -> None:
        self.packages.append(requirement)


def link_python(folder: Path, *, base: object) -> Path:
    """Make an environment of a link to this interpreter, which takes no time."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder / "bin" / "python"


def install(environment: EngineEnvironment, packages: list[str] | None = None) -> Path:
    make_pip = partial(FakePip, packages=[] if packages is None else packages)
    return install_engine(environment, create_environment=link_python, make_pip=make_pip)


@pytest.fixture
def environment(tmp_path: Path) -> EngineEnvironment:
    """An engine whose module, `json`, every interpreter has."""
    tag = describe(Path(sys.executable)).tag
    (tmp_path / f"quick-{tag}.txt").write_text("quick==1.0 --hash=sha256:0\n")
    return EngineEnvironment("quick", tmp_path, ("json",), disk_bytes=1, requirement="late==2.0")


def test_an_environment_is_installed_once_and_removed(environment: EngineEnvironment) -> None:
    packages: list[str] = []
    assert engine_python(environment) is None
    python = install(environment, packages)
    assert engine_python(environment) == python
    assert install(environment, packages) == python
    assert packages == [environment.lock(describe(python).tag).name, "late==2.0"]
    # A lock file that has changed since is installed again.
    environment.lock(describe(python).tag).write_text("quick==1.1 --hash=sha256:0\n")
    install(environment, packages)
    assert len(packages) == 4
    with mock.patch("shutil.rmtree"):  # cut off before it deletes anything
        remove_engine(environment)
    install(environment, packages)
    assert len(packages) == 6
    remove_engine(environment)
    assert engine_python(environment) is None
    with pytest.raises(UserError, match="`quick` is not installed"):
        remove_engine(environment)


def test_an_environment_of_another_python_stays_unless_the_user_names_one(
    environment: EngineEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = describe(Path(sys.executable))
    python, packages = install(environment), list[str]()
    newer = replace(here, version=(*here.version[:2], 99))
    monkeypatch.setattr(engine_environments, "describe", lambda path: here if path == python else newer)
    assert install(environment, packages) == python and packages == []
    make_pip = partial(FakePip, packages=packages)
    install_engine(environment, python=Path(sys.executable), create_environment=link_python, make_pip=make_pip)
    assert len(packages) == 2


def test_an_engine_that_does_not_import_is_not_installed(environment: EngineEnvironment) -> None:
    broken = replace(environment, modules=("no_such_engine",))
    with pytest.raises(
        EnvironmentFault, match=r"`no_such_engine` was installed but does not import: .*No module named"
    ):
        install(broken)
    assert engine_python(broken) is None


def test_a_python_without_lock_file_names_those_that_have_one(environment: EngineEnvironment) -> None:
    for file in environment.requirements.glob("quick-*.txt"):
        file.rename(file.with_name("quick-py399.txt"))
    with pytest.raises(EnvironmentFault, match=r"`quick` needs Python 3.99 to 3.99, but this is Python 3"):
        install(environment)


def test_an_engine_without_lock_files_says_how_they_are_made(environment: EngineEnvironment) -> None:
    for file in environment.requirements.glob("quick-*.txt"):
        file.unlink()
    with pytest.raises(EnvironmentFault, match=r"`quick` has no lock file in .*; make one for each Python"):
        install(environment)


def test_too_little_disk_is_said_before_the_download(environment: EngineEnvironment) -> None:
    with pytest.raises(EnvironmentFault, match=r"GB free; 1000000000\.0 GB are needed"):
        install(replace(environment, disk_bytes=10**18))
