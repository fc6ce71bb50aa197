"""The cache stays within its limit: what was used longest ago goes first, and nothing that is in use."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from passsearch.cli import app
from passsearch.errors import UserError
from passsearch.store import RunFolder, cache_entries, in_use, limit_cache, limit_cache_hourly, open_fact_cache
from passsearch.store.cache_limit import STAMP

DIGEST = "0123456789abcdef"


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with a run, an imported network, a network in two files and a fact cache, used in this order."""
    run = RunFolder(tmp_path / "runs" / "old", {})
    run.log.record("samples", "a", fact={"text": "x" * 1000})
    run.close()
    age(run.path / "log.jsonl", 9000)
    models, facts = tmp_path / "models", tmp_path / "memory"
    (models / f"net-{DIGEST}").mkdir(parents=True)
    (models / f"net-{DIGEST}" / "network.json").write_text("x" * 1000)
    age(models / f"net-{DIGEST}", 8000)
    for end in ("-symbol.json", "-0000.params"):
        file = models / f"net2-{DIGEST}{end}"
        file.write_text("x" * 1000)
        age(file, 7000)
    facts.mkdir()
    (facts / f"net-{DIGEST}.jsonl").write_text("x" * 1000)
    age(facts / f"net-{DIGEST}.jsonl", 6000)
    graph = tmp_path / "graphs" / f"net-{DIGEST}-1.json"
    graph.parent.mkdir()
    graph.write_text("x" * 1000)
    age(graph, 5000)
    return tmp_path


def test_the_least_recently_used_go_first_and_files_of_a_network_together(cache: Path) -> None:
    kinds = ["run", "network", "network", "fact cache", "graph"]
    assert [entry.kind for entry in cache_entries(cache)] == kinds

    removed = limit_cache(cache, limit_bytes=2500)

    assert [entry.kind for entry in removed] == kinds[:3] and len(removed[2].paths) == 2
    assert [entry.kind for entry in cache_entries(cache)] == kinds[3:]
    assert not any(path.exists() for entry in removed for path in entry.paths)


def test_what_a_killed_import_has_left_goes_after_a_day(cache: Path) -> None:
    old, new = (cache / "models" / f".partial-{name}" for name in ("old", "new"))
    for folder, seconds in ((old, 25 * 3600), (new, 3600)):
        folder.mkdir()
        age(folder, seconds)
    limit_cache(cache, limit_bytes=1e9)
    assert not old.exists() and new.exists()


def test_nothing_is_removed_within_the_limit_or_soon_after_its_use(cache: Path) -> None:
    assert limit_cache(cache, limit_bytes=10**6) == []
    assert limit_cache(cache, limit_bytes=0, recent_s=9500) == []


def test_what_another_process_uses_stays(cache: Path) -> None:
    network = cache / "models" / f"net-{DIGEST}" / "network.json"
    program = (
        "import pathlib, sys\nfrom passsearch.store import in_use\n"
        "with in_use(pathlib.Path(sys.argv[1]), [pathlib.Path(sys.argv[2])]):\n    print(flush=True); input()"
    )
    run = RunFolder(cache / "runs" / "old", {})
    with (
        open_fact_cache(cache / "memory" / f"net-{DIGEST}.jsonl"),
        subprocess.Popen(
            [sys.executable, "-c", program, str(cache), str(network)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as user,
    ):
        assert user.stdout is not None and user.stdout.readline()
        removed = limit_cache(cache, limit_bytes=0, recent_s=0.0)
        user.communicate(b"\n")
    run.close()

    assert [entry.paths[0].name for entry in removed] == [f"net2-{DIGEST}-0000.params", f"net-{DIGEST}-1.json"]
    assert network.exists() and run.path.exists()


def test_use_is_noted_for_networks_of_the_cache_only(cache: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.onnx"
    own.write_text("x")
    age(own, 5000)
    folder = cache / "models" / f"net-{DIGEST}"

    with in_use(cache, [own, folder / "network.json"]):
        assert time.time() - own.stat().st_mtime > 4000
        assert time.time() - folder.stat().st_mtime < 1000


@pytest.mark.usefixtures("relay")
def test_a_command_removes_in_one_line_what_exceeds_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSSEARCH_CACHE_GB", "0")
    file = tmp_path / "passsearch" / "models" / f"net-{DIGEST}.onnx"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x" * 2_000_000)
    age(file, 9000)

    assert app.main(["analyze", "zoo:resnet_tiny"]) == 0

    lines = [line for line in capsys.readouterr().err.splitlines() if "cache" in line]
    assert len(lines) == 1 and "1 network, 2 MB" in lines[0] and "PASSSEARCH_CACHE_GB" in lines[0]
    assert not file.exists()


@pytest.mark.parametrize("text", ["much", "-1", "nan"])
def test_a_limit_that_is_no_size_is_refused_in_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PASSSEARCH_CACHE_GB", text)

    assert app.main(["tune", "zoo:resnet_tiny"]) == 2
    assert f"got `{text}`" in capsys.readouterr().err


# The second age is that of a stamp after the clock was set back.
@pytest.mark.parametrize("stamp_age_s", [4000.0, -4000.0])
def test_the_cache_is_looked_at_once_an_hour_or_when_the_limit_changes(cache: Path, stamp_age_s: float) -> None:
    assert limit_cache_hourly(cache, limit_bytes=10**6) == []
    assert len(limit_cache_hourly(cache, limit_bytes=4500)) == 2  # another limit
    graph = cache / "graphs" / f"net-{DIGEST}-1.json"
    graph.write_text("x" * 9000)
    age(graph, 99_000)
    assert limit_cache_hourly(cache, limit_bytes=4500) == []
    age(cache / STAMP, stamp_age_s)
    assert [entry.kind for entry in limit_cache_hourly(cache, limit_bytes=4500)] == ["graph"]


def test_a_run_counts_whatever_its_result_is(cache: Path) -> None:
    (cache / "runs" / "old" / "result.json").write_text("no result")
    oldest = cache_entries(cache)[0]
    assert oldest.kind == "run" and oldest.age_s == pytest.approx(9000, abs=60)
    assert oldest.bytes == sum(path.stat().st_size for path in (cache / "runs" / "old").iterdir())


def test_a_run_whose_network_is_in_use_stays(cache: Path) -> None:
    run = cache / "runs" / "old"
    with in_use(cache, [run / "network.json"]):
        assert run not in {entry.paths[0] for entry in limit_cache(cache, limit_bytes=0)}
        with pytest.raises(UserError, match="in use by another process"):
            RunFolder(run, {})
    assert [entry.paths for entry in limit_cache(cache, limit_bytes=0)] == [(run,)]


def test_a_run_that_goes_on_uses_its_own_network(cache: Path) -> None:
    run = RunFolder(cache / "runs" / "old", {})
    with in_use(cache, [run.path / "network.json"]):
        run.log.record("samples", "b", fact={})
    run.close()
