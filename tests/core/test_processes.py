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


def test_processes_report_nothing_unless_the_user_lets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    assert child_environment()["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    assert child_environment()["ORT_DISABLE_TELEMETRY"] == "0"
