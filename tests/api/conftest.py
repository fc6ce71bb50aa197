"""The dialects that the API is tested on."""

import shutil
from collections.abc import Callable
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


@pytest.fixture(scope="session")
def tuned(job: Job, tiny_network: Path, tmp_path_factory: pytest.TempPathFactory) -> passsearch.TuneResult:
    """A finished run with a confirmed winner; its facts are in the cache folder of the session."""
    return tune_and_confirm(job, tiny_network, tmp_path_factory.mktemp("tuned") / "run")
