"""Settings that are faster on most kernels of a kind, from the logs of runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.store import Log
from passsearch.studies import learn_schedules, schedule_learning

OWN = "ScheduleCPU"
ROWS, LONGER = "ScheduleCPU{rows=8}", "ScheduleCPU{pack=true,rows=8}"


def write_run(
    folder: Path, times: Mapping[str, Mapping[str, float]], *, operations: int = 1000, reference_s: float = 2.0
) -> Path:
    folder.mkdir()
    with Log(folder / "log.jsonl") as log:
        rows = [{"name": name, "digest": name, "calls": 1, "operations": operations, "bytes": 10} for name in times]
        log.record("kernels", "state", fact={"kernels": rows, "constant_bytes": 0})
        for digest, settings in times.items():
            log.record("variant", f"{digest}|warm|{OWN}", fact={"seconds": reference_s, "digest": "own"})
            for step, seconds in settings.items():
                fact = {"seconds": seconds * reference_s, "digest": step, "reference": OWN, "reference_s": reference_s}
                log.record("variant", f"{digest}|warm|{step}", fact=fact)
            log.record("variant", f"{digest}|warm|ScheduleCPU{{rows=3}}", fact={"reason": "refused"})
    return folder


@pytest.fixture(autouse=True)
def results(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(run: Path) -> dict[str, Any]:
        return {
            "model": {"name": run.name},
            "target": run.suffix or "llvm",
            "classes": [{"name": "RN"}] if run.name.startswith("resnet") else [],
        }

    monkeypatch.setattr(schedule_learning, "read_result", read)


def test_a_setting_that_is_faster_on_every_kernel_of_a_class_is_proposed(tmp_path: Path) -> None:
    first = write_run(tmp_path / "resnet18", {"a": {ROWS: 0.80, LONGER: 0.80}, "b": {ROWS: 0.81, LONGER: 0.81}})
    # It shares a kernel with the first network, which counts once.
    second = write_run(
        tmp_path / "resnet50", {"b": {ROWS: 0.81, LONGER: 0.81}, "c": {ROWS: 0.79, LONGER: 0.79}}, reference_s=5.0
    )
    (row,) = learn_schedules([first, second])["RN"]["ScheduleCPU"]
    assert row["networks"] == ["resnet18", "resnet50"]
    assert row["kernels"] == "many operations on each byte"
    (faster,) = row["faster"]  # two settings that make one schedule are one row, the shorter
    assert faster["arguments"] == {"rows": 8} and faster["time"] == pytest.approx(0.8, abs=1e-3)
    assert faster["number"] == faster["faster"] == 3 and faster["slower"] == 0 and faster["interval"][1] < 1


def test_a_setting_that_is_faster_on_average_only_is_not_proposed(tmp_path: Path) -> None:
    times = {name: {ROWS: ratio} for name, ratio in {"a": 0.5, "b": 1.01, "c": 1.0}.items()}
    assert learn_schedules([write_run(tmp_path / "resnet18", times)]) == {}


def test_runs_for_several_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one target"):
        learn_schedules([write_run(tmp_path / name, {}) for name in ("resnet18", "resnet18.cuda")])


def test_nothing_is_said_from_two_kernels(tmp_path: Path) -> None:
    times = {"a": {ROWS: 0.8}, "b": {ROWS: 0.8001}, "c": {LONGER: 1.0}}
    assert learn_schedules([write_run(tmp_path / "resnet18", times)]) == {}


def test_networks_without_a_class_and_kernels_with_few_operations_have_their_own_rows(tmp_path: Path) -> None:
    times = {"a": {ROWS: 0.8}, "b": {ROWS: 0.81}, "c": {ROWS: 0.79}}
    found = learn_schedules([write_run(tmp_path / "other", times, operations=20)])
    assert [row["kernels"] for row in found["unknown"]["ScheduleCPU"]] == ["few operations on each byte"]
