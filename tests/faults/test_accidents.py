"""What happens to the machine is no fact about a candidate: it is tried again, and never remembered."""

import logging
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import short_plans

import passsearch
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Session, WorkerLimits
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.machine_health import machine_problem
from passsearch.standalone.deployment.linker import find_linker
from passsearch.store import Log
from passsearch.toolchain import Toolchain

HERE = Path(__file__).parent


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A user's catalog with the pass ``Accident``."""
    folder = tmp_path / "catalog"
    folder.mkdir()
    for name in ("accident_passes.py", "accident_passes.yaml"):
        shutil.copy(HERE / name, folder)
    return folder / "accident_passes.yaml"


def tune(
    network: Path, catalog: Path, toolchain: Toolchain, *, run: Path, signals: Sequence[int]
) -> passsearch.TuneResult:
    """Search with the pass ``Accident``, which meets these signals."""
    catalog.with_name("signals.txt").write_text(" ".join(str(int(number)) for number in signals))
    return short_plans.tune(
        network,
        toolchain=toolchain.name,
        objective="compile_time",
        trials=2,
        confirm=0,
        passes=["LegalizeOps", "Accident"],
        catalogs=[catalog],
        out=run,
    )


def kinds(result: passsearch.TuneResult) -> set[str]:
    return {failure["kind"] for failure in result.document["failed"] if failure["step"] == "Accident"}


def test_signals_from_outside_are_tried_again_and_cost_nothing(
    relax: Toolchain, tiny_network: Path, catalog: Path, tmp_path: Path
) -> None:
    # The second application, which signal 0 lets pass, is that after the first signal.
    result = tune(tiny_network, catalog, relax, run=tmp_path / "run", signals=[signal.SIGTERM, 0, signal.SIGKILL])
    assert kinds(result) == set() and catalog.with_name("signals.txt").read_text() == ""
    assert result.document["space"]["closed"]


@pytest.mark.slow
def test_a_signal_of_the_programs_own_making_that_comes_again_is_a_crash(
    relax: Toolchain, tiny_network: Path, catalog: Path, tmp_path: Path
) -> None:
    result = tune(tiny_network, catalog, relax, run=tmp_path / "run", signals=[signal.SIGSEGV] * 2)
    assert kinds(result) == {"crash"}


@pytest.mark.slow
def test_an_accident_that_comes_again_is_forgotten_by_the_next_start(
    relax: Toolchain, tiny_network: Path, catalog: Path, tmp_path: Path
) -> None:
    first = tune(tiny_network, catalog, relax, run=tmp_path / "run", signals=[signal.SIGKILL] * 2)
    assert kinds(first) == {"oom"}
    continued = tune(tiny_network, catalog, relax, run=tmp_path / "run", signals=[])
    assert kinds(continued) == set()
    another = tune(tiny_network, catalog, relax, run=tmp_path / "another", signals=[])
    assert kinds(another) == set()


@pytest.fixture
def linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A C compiler that a signal kills as often as the file beside it has lines."""
    program, deaths = tmp_path / "linker", tmp_path / "deaths"
    program.write_text(
        f'#!/bin/sh\nif [ -s {deaths} ]; then sed -i 1d {deaths}; kill -9 $$; fi\nexec {find_linker()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    # Builds that earlier runs remember need no linker.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return deaths


@pytest.mark.parametrize("dialect", ["relax", pytest.param("relay", marks=pytest.mark.slow)])
def test_a_killed_linker_is_no_failure_of_what_it_links(
    dialect: str, request: pytest.FixtureRequest, tiny_network: Path, tmp_path: Path, linker: Path
) -> None:
    toolchain: Toolchain = request.getfixturevalue(dialect)

    def failures() -> list[str]:
        result = short_plans.tune(
            tiny_network,
            toolchain=toolchain.name,
            objective="compile_time",
            trials=1,
            confirm=0,
            passes=["FoldConstant"],
            out=tmp_path / "run",
        )
        return [failure["reason"] for failure in result.document["failed"]]

    linker.write_text("again\n" * 100)
    with pytest.raises(EnvironmentFault, match="C compiler failed: it ended without a message"):
        failures()
    linker.write_text("once\n")
    assert failures() == [] and linker.read_text() == ""


class SignalsAtImport(logging.Handler):
    """Sends signals to compilers that are about to import a network, one to each."""

    def __init__(self, signals: Sequence[signal.Signals]) -> None:
        super().__init__()
        self.signals = list(signals)

    def emit(self, record: logging.LogRecord) -> None:
        """Send the next signal if the record says that a worker is asked to import."""
        if self.signals and isinstance(record.args, tuple) and "load" in record.args:
            os.kill(int(str(record.args[0])), self.signals.pop())


@contextmanager
def signals_at_import(*signals: signal.Signals) -> Iterator[SignalsAtImport]:
    """Send signals to compilers that are about to import a network."""
    logger, handler = logging.getLogger("passsearch.worker.client"), SignalsAtImport(signals)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_an_accident_of_the_import_is_tried_again_and_is_no_mistake_of_the_user(
    relax: Toolchain, tiny_network: Path
) -> None:
    def open_network() -> None:
        with passsearch.session(tiny_network, toolchain=relax.name, remember=False) as evaluator:
            assert evaluator.network.root

    with signals_at_import(signal.SIGKILL) as handler:
        open_network()
    assert not handler.signals
    with signals_at_import(*[signal.SIGTERM] * 2), pytest.raises(EnvironmentFault, match=r"Cannot import .*SIGTERM"):
        open_network()
    with signals_at_import(*[signal.SIGSEGV] * 2), pytest.raises(UserError, match=r"Cannot import .*SIGSEGV"):
        open_network()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a small file system on a folder; the test is skipped where that is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_ends_the_run_in_one_line_and_no_other_run_hears_of_it(
    relax: Toolchain, tiny_network: Path, tmp_path: Path
) -> None:
    options = {"toolchain": relax.name, "trials": 1, "confirm": 0, "passes": ["LegalizeOps"]}
    with small_disk(tmp_path / "disk", "64k"), pytest.raises(EnvironmentFault) as full:
        short_plans.tune(tiny_network, out=tmp_path / "disk" / "run", **options)  # type: ignore[arg-type]
    assert "is full" in str(full.value) and "the same command continues" in str(full.value)
    result = short_plans.tune(tiny_network, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    assert result.document["failed"] == []


@pytest.mark.slow
def test_a_failed_baseline_is_tried_again_by_the_next_start(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"toolchain": relax.name, "trials": 1, "confirm": 0, "passes": ["LegalizeOps"]}
    monkeypatch.setenv("CC", "false")  # a linker that fails
    with pytest.raises(passsearch.errors.PassSearchError):
        short_plans.tune(tiny_network, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    monkeypatch.delenv("CC")
    assert short_plans.tune(tiny_network, out=tmp_path / "run", **options).document["failed"] == []  # type: ignore[arg-type]


def test_the_disk_and_the_reason_tell_whether_the_machine_is_well(tmp_path: Path) -> None:
    assert not machine_problem([tmp_path / "not made yet"], reason="no schedule")
    assert machine_problem([tmp_path], reason="ld: no space left on device")


@pytest.mark.parametrize("kind", ["infra", "oom", "unstable"])
def test_accidents_hold_for_one_start(kind: str, tmp_path: Path) -> None:
    fact = {"failure": {"kind": kind, "stage": "build", "step": "", "reason": "killed"}}
    session = cast("Session", SimpleNamespace(limits=WorkerLimits(5.0)))
    with Log(tmp_path / "log") as log:
        facts = FactStore(session, log, cache=None, seconds={})
        facts.record("build", "key", fact=fact)
        assert facts.recall("build", "key") is not None
    with Log(tmp_path / "log") as log:
        assert FactStore(session, log, cache=None, seconds={}).recall("build", "key") is None
