"""Which processors are used first where cores have hyper-threads."""

from pathlib import Path

import pytest

from passsearch.core import child_environment, physical_cores, usable_processors
from passsearch.standalone.deployment import processor


@pytest.mark.parametrize(
    ("affinity", "siblings", "order", "cores"),
    [
        ({0, 1, 2, 3}, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, [0, 2, 1, 3], 2),
        ({0, 1, 2, 3}, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, [0, 1, 2, 3], 2),
        ({1, 3}, {1: "0-1", 3: "2-3"}, [1, 3], 2),
        ({0, 1}, {0: "0-1", 1: "0-1"}, [0, 1], 1),
        ({0, 1}, {}, [0, 1], 2),
    ],
    ids=["neighbours", "halves", "one of each", "both of one", "not told"],
)
def test_one_processor_of_every_core_comes_first(
    affinity: set[int],
    siblings: dict[int, str],
    order: list[int],
    cores: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number, text in siblings.items():
        (tmp_path / str(number)).write_text(f"{text}\n")
    monkeypatch.setattr(processor, "SIBLINGS", f"{tmp_path}/{{}}")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: affinity)
    assert usable_processors() == order and physical_cores() == cores


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "200000 100000"}, 2.0),
        ({"cpu.max": "max 100000"}, float("inf")),
        ({"job/step/cpu.max": "max 100000", "job/cpu.max": "150000 100000", "cpu.max": "800000 100000"}, 1.5),
        ({"cpu/job/cpu.cfs_quota_us": "300000", "cpu/job/cpu.cfs_period_us": "100000"}, 3.0),
        ({"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"other/cpu.max": "100000 100000"}, float("inf")),
    ],
)
def test_a_limit_of_processor_time_counts_as_processors(files: dict[str, str], quota: float, tmp_path: Path) -> None:
    membership = tmp_path / "membership"
    membership.write_text("4:cpu,cpuacct:/job\n0::/job/step\n")
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert processor.processor_quota(tmp_path / "groups", membership) == quota


@pytest.mark.parametrize(("quota", "cores"), [(float("inf"), 2), (1.5, 1), (0.5, 1), (8.0, 2)])
def test_a_limit_of_processor_time_limits_the_cores(
    quota: float, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "processor_quota", lambda: quota)
    monkeypatch.setattr(processor, "SIBLINGS", f"{tmp_path}/{{}}")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert physical_cores() == cores


@pytest.mark.parametrize("name", ["ORT_DISABLE_TELEMETRY", "NNCF_CI"])
def test_processes_report_nothing_unless_the_user_lets_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    assert child_environment()[name] == "1"
    monkeypatch.setenv(name, "0")
    assert child_environment()[name] == "0"
