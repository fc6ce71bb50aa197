"""The peaks of this machine, and the best of them that is stored."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from passsearch.worker import Peaks, best_peaks


def test_peaks_never_become_worse_and_damaged_ones_are_measured_again(tmp_path: Path) -> None:
    device = {"name": "a processor"}
    first = best_peaks(1, device, tmp_path)
    assert first.flops > 1e8 and first.bytes_per_s > 1e7
    (file,) = tmp_path.glob("peaks-*.json")
    file.write_text(json.dumps(asdict(Peaks(1, 1e18, 1.0))))
    second = best_peaks(1, device, tmp_path)
    assert second.flops == 1e18 and second.bytes_per_s > 1.0
    file.write_text("{")
    assert best_peaks(1, device, tmp_path).flops < 1e18


def test_the_least_time_is_of_what_takes_longer() -> None:
    peaks = Peaks(2, flops=100.0, bytes_per_s=10.0)
    assert peaks.least_s(200.0, 10.0) == pytest.approx(2.0)
    assert peaks.least_s(100.0, 50.0) == pytest.approx(5.0)
