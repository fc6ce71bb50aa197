"""The checks of a deployment script, without a compiler."""

import importlib
import mmap
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import passsearch.standalone.deployment
from passsearch.measure.outputs import digest
from passsearch.standalone.deployment.checked_files import SUMS, put_in_place, write_sums

HOME = str(Path(passsearch.standalone.deployment.__file__).parent)
INPUTS, OTHERS = ({"x": np.full((4, 4), value, "float32")} for value in (1.0, 2.0))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as a deployment loads it: from a folder on the import path."""
    monkeypatch.syspath_prepend(HOME)
    for name in ("rebuild_checks", "input_values", "linker", "loader_command"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("rebuild_checks")


class Network:
    """Doubles its input for some calls, and may clear it."""

    def __init__(self, *, right: int = 10**6, clears: bool = False) -> None:
        self._right, self._clears, self._calls = right, clears, 0
        self._outputs = np.zeros((4, 4), "float32")

    def __call__(self, inputs: dict[str, Any]) -> list[Any]:
        self._calls += 1
        self._held = {name: array.copy() for name, array in inputs.items()}
        if self._calls <= self._right:
            self._outputs[:] = 2 * self._held["x"]
        if self._clears:
            self._held["x"][:] = 0
        return [self._outputs]

    def held(self) -> dict[str, Any]:
        return self._held


def test_a_network_that_computes_the_same_after_many_calls_passes(checks: ModuleType) -> None:
    network = Network()
    (output,) = checks.run_again(network, network.held, INPUTS, OTHERS, 1e-4)
    assert np.array_equal(output, 2 * INPUTS["x"])


@pytest.mark.parametrize(
    ("network", "message"),
    [(Network(right=40), "output 0 is another one on equal inputs"), (Network(clears=True), "changes its input `x`")],
)
def test_a_network_that_stops_computing_or_changes_its_input_is_refused(
    checks: ModuleType, network: Network, message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        checks.run_again(network, network.held, INPUTS, OTHERS, 1e-4)


def test_a_lost_slice_and_a_common_factor_are_refused_though_the_largest_value_agrees(checks: ModuleType) -> None:
    expected = np.random.default_rng(0).uniform(0, 640, (1, 84, 64)).astype("float32")
    expected[:, 4:] *= 1e-5
    (record,) = digest([expected])
    lost = expected.copy()
    lost[:, 4:] = 0
    assert checks.finer_fault(expected, record, 1e-3) == ""
    assert "slice 4 of axis 1" in checks.finer_fault(lost, record, 1e-3)
    assert "1.05 times" in checks.finer_fault(expected * np.float32(1.05), record, 0.016)
    # What earlier versions recorded has neither.
    old = {name: value for name, value in record.items() if name not in ("mean_abs", "slices")}
    assert checks.finer_fault(lost, old, 1e-3) == ""


def test_a_library_that_another_process_has_mapped_outlives_a_new_build(tmp_path: Path) -> None:
    first, second, out = (tmp_path / name for name in ("first", "second", "out"))
    for folder, names in ((first, ("network.so", "examples/input-0.npy")), (second, ("network.so",))):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(folder.name.encode() * 4096)
        write_sums(folder)
    put_in_place(first, out)
    (out / "notes.txt").write_text("the user's")
    with (out / "network.so").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        put_in_place(second, out)
        assert mapped[:] == b"first" * 4096
    assert (out / "network.so").read_bytes() == b"second" * 4096
    files = sorted(file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file())
    assert files == [SUMS, "network.so", "notes.txt"]


def test_where_bits_are_kept_an_output_that_differs_in_its_last_place_is_refused(checks: ModuleType) -> None:
    expected = np.ones((4, 4), "float32")
    record = {"expected": digest([expected, expected]), "tolerance": 1e-4}
    outputs = [expected, np.nextafter(expected, np.float32(2))]
    checks.check_outputs(outputs, record, note="")
    with pytest.raises(SystemExit, match="Output 1 has other bits than recorded, and those of default were to be kept"):
        checks.check_outputs(outputs, {**record, "same_bits": "default"}, note="")
