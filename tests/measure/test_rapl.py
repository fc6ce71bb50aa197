"""RAPL counters as Linux shows them, in a folder of our own."""

from pathlib import Path

import pytest

from passsearch.measure.rapl import RaplMeter

RANGE_UJ = 1_000_000


def zone(root: Path, name: str, label: str, energy_uj: int) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def test_packages_are_added_and_their_parts_are_not(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 1000)
    zone(tmp_path, "intel-rapl:1", "package-1", 3000)
    zone(tmp_path, "intel-rapl:0:0", "core", 900)
    zone(tmp_path, "intel-rapl:2", "psys", 9000)
    assert RaplMeter(tmp_path).read().energy_j == pytest.approx(0.004)


def test_a_counter_that_wraps_continues(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", RANGE_UJ - 100)
    meter = RaplMeter(tmp_path)
    before = meter.read()
    counter.write_text("200\n")
    after = meter.read()
    assert before.energy_j is not None and after.energy_j is not None
    assert after.energy_j - before.energy_j == pytest.approx(300e-6)
    assert after.power_w == pytest.approx(300e-6 / (after.time_s - before.time_s))
    assert before.power_w is None


def test_a_system_without_counters_gives_the_reason(tmp_path: Path) -> None:
    meter = RaplMeter(tmp_path)
    assert meter.read().energy_j is None
    assert set(meter.unavailable) >= {"power_w", "energy_j"} and "no RAPL" in meter.unavailable["energy_j"]


def test_counters_for_root_only_give_the_command_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, encoding: str | None = None) -> str:
        raise PermissionError

    zone(tmp_path, "intel-rapl:0", "package-0", 1000)
    monkeypatch.setattr(Path, "read_text", refuse)
    assert "chmod a+r" in RaplMeter(tmp_path).unavailable["energy_j"]


def test_counters_that_a_container_hides_are_none(tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:0").symlink_to(tmp_path / "masked")
    assert "no RAPL" in RaplMeter(tmp_path).unavailable["energy_j"]


def test_a_counter_that_becomes_unreadable_reads_none(tmp_path: Path) -> None:
    counter = zone(tmp_path, "intel-rapl:0", "package-0", 1000)
    meter = RaplMeter(tmp_path)
    counter.unlink()
    assert meter.read().energy_j is None
