"""The dialects that the API is tested on."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from jobs import JOBS, Job, tune_and_confirm

import passsearch
from passsearch.toolchain import Toolchain

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session", params=JOBS)
def job(request: pytest.FixtureRequest, toolchain_of: Callable[[str], Toolchain]) -> Job:
    """The job on one dialect after the other; tests are skipped for a dialect without a toolchain."""
    return Job(toolchain_of(request.param), *JOBS[request.param])


@pytest.fixture(scope="session")
def bad_passes(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's catalog of passes that misbehave, with their module beside it."""
    folder = tmp_path_factory.mktemp("bad_passes")
    shutil.copy(DATA / "bad_passes.yaml", folder)
    shutil.copy(DATA / f"{job.bad_passes}.py", folder / "bad_passes.py")
    return folder / "bad_passes.yaml"


@cache
def _tuned(job: Job, network: Path, folder: Path) -> passsearch.TuneResult:
    # Pytest makes a fixture with parameters again whenever the parameter changes, so once for each file of tests.
    return tune_and_confirm(job, network, folder / job.toolchain.name / "run")


@pytest.fixture(scope="session")
def tuned(job: Job, tiny_network: Path, tuned_runs: Path) -> passsearch.TuneResult:
    """A finished run with a confirmed winner; its facts are in the cache folder of the session."""
    return _tuned(job, tiny_network, tuned_runs)


@pytest.fixture(scope="session")
def tuned_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the runs that tests share."""
    return tmp_path_factory.mktemp("tuned")
