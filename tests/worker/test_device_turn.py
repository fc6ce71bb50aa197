"""The turn on a device that several processes share."""

from pathlib import Path

import pytest

from passsearch.worker import device_turn


def test_a_device_that_another_process_keeps_is_an_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = str(tmp_path / "locks" / "gpu")
    monkeypatch.setattr(device_turn, "DEVICE_WAIT_S", 0.2)
    # A second descriptor of one file has to wait, in this process as in another.
    late = pytest.raises(OSError, match="another process has used the device for")
    with device_turn.device_turn(lock), late, device_turn.device_turn(lock):
        pass
    with device_turn.device_turn(lock):
        pass
