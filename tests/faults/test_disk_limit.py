"""A run holds no more disk than it may: it drops what it can make again, then stops in one line with all its facts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import passsearch
from passsearch.core import BuildOptions, Candidate
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Built
from passsearch.evaluate.disk_limit import RUN_SHARE, DiskLimit
from passsearch.store import STATES, Log
from passsearch.toolchain import Toolchain, run_limit_bytes
from passsearch.worker import free_disk_bytes

LEVELS = tuple(Candidate(build=BuildOptions(level)) for level in range(5))


def test_artifacts_that_are_not_needed_go_first_and_can_be_made_again(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSSEARCH_RUN_GB", "0.0002")  # each of the artifacts has some tens of kilobytes
    made: list[Built] = []
    with passsearch.session(tiny_network, toolchain=relax.name, folder=tmp_path / "open", remember=False) as evaluator:

        def build_all() -> None:
            for level in LEVELS:
                built = evaluator.build(evaluator.graph.root, level)
                assert isinstance(built, Built)
                made.append(built)

        with pytest.raises(EnvironmentFault, match=r"hold \d+\.\d MB, of 0\.2 MB .*PASSSEARCH_RUN_GB"):
            build_all()
        evaluator.make_room(made[-1:])
        assert [built.folder.exists() for built in made] == [False] * (len(made) - 1) + [True] != [True]
        assert evaluator.restore(made[0]) == made[0] and made[0].folder.exists()


@pytest.fixture
def tune(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> Callable[[], "subprocess.CompletedProcess[str]"]:
    """A command that searches with one pass, whose artifacts have some tens of kilobytes each."""
    words = [sys.executable, "-m", "passsearch", "tune", str(tiny_network), "--toolchain", relax.name, "--fresh"]
    words += ["--objective", "compile_time", "--trials", "1", "--confirm", "0", "--passes", "LegalizeOps"]
    words += ["--rivals", "none"]
    return lambda: subprocess.run([*words, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False)


def test_a_run_without_room_stops_in_one_line_and_goes_on_where_it_has_room(
    tune: Callable[[], "subprocess.CompletedProcess[str]"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "run" / "log.jsonl"
    monkeypatch.setenv("PASSSEARCH_RUN_GB", "0.00004")
    stopped = tune()
    assert stopped.returncode == 3 and "PASSSEARCH_RUN_GB" in stopped.stderr.splitlines()[-1]
    assert "Traceback" not in stopped.stderr and not stopped.stdout
    facts = log.read_bytes()
    assert facts
    monkeypatch.delenv("PASSSEARCH_RUN_GB")
    finished = tune()
    assert finished.returncode == 0, finished.stderr
    assert log.read_bytes().startswith(facts)


def test_the_log_counts_and_the_states_do_not(tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    (artifacts / STATES).mkdir(parents=True)
    (artifacts / STATES / "state").write_bytes(bytes(5000))
    with Log(tmp_path / "log.jsonl") as log:
        limit = DiskLimit(artifacts, log, most_bytes=2000)
        assert limit.held_bytes == 0
        limit.require_room()
        log.record("edge", "a", fact={"text": "x" * 3000})
        assert limit.held_bytes == (tmp_path / "log.jsonl").stat().st_size > 3000
        for refuse in (limit.require_room, limit.require_room_in_log):
            with pytest.raises(EnvironmentFault, match="What was measured is kept"):
                refuse()


def test_the_limit_is_a_share_of_the_disk_that_does_not_shrink_as_the_run_grows(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        most = DiskLimit(tmp_path, log).most_bytes
    assert most == pytest.approx(RUN_SHARE * free_disk_bytes(tmp_path), rel=0.05)


def test_a_limit_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSSEARCH_RUN_GB", "much")
    with pytest.raises(UserError, match="PASSSEARCH_RUN_GB is a size in GB from 0 on; got `much`"):
        run_limit_bytes()
