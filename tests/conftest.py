"""Fixtures every room shares."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import onnx
import pynvml
import pytest
from onnx import TensorProto, helper, numpy_helper

from passsearch.errors import PassSearchError
from passsearch.measure import nvml
from passsearch.toolchain import Toolchain, get_toolchain


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests keep in the user's cache folder goes with the session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test profits from what another found out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _toolchain(dialect: str) -> Toolchain:
    try:
        return get_toolchain(dialect=dialect)
    except PassSearchError as error:
        pytest.skip(f"needs a toolchain: {error}")


@pytest.fixture(scope="session")
def relay() -> Toolchain:
    """An installed toolchain with Relay; `make test` installs one."""
    return _toolchain("relay")


@pytest.fixture(scope="session")
def relax() -> Toolchain:
    """An installed toolchain with Relax; `make test` installs one."""
    return _toolchain("relax")


@pytest.fixture(scope="session")
def relay_python(relay: Toolchain) -> Path:
    """Its interpreter."""
    return relay.python


@pytest.fixture
def nvml_library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """NVML by its real names and signatures, of two GPUs; handles are their indices."""
    uuids = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
    library = create_autospec(pynvml)
    for name in dir(pynvml):
        if name.startswith(("NVML_", "nvmlClocksEventReason")) or name == "NVMLError":
            setattr(library, name, getattr(pynvml, name))
    library.nvmlDeviceGetCount.return_value = 2
    library.nvmlDeviceGetHandleByIndex.side_effect = lambda index: index
    library.nvmlDeviceGetHandleByUUID.side_effect = uuids.index
    library.nvmlDeviceGetUUID.side_effect = lambda handle: uuids[handle]
    library.nvmlDeviceGetName.return_value = "A Fine GPU"
    library.nvmlSystemGetDriverVersion.return_value = "999.1"
    library.nvmlDeviceGetCudaComputeCapability.return_value = (8, 0)
    library.nvmlDeviceGetMemoryInfo.return_value = SimpleNamespace(total=80 << 30)
    library.nvmlDeviceGetTotalEnergyConsumption.return_value = 123_456
    library.nvmlDeviceGetPowerUsage.return_value = 250_000
    library.nvmlDeviceGetTemperature.return_value = 61
    library.nvmlDeviceGetClockInfo.return_value = 1410
    library.nvmlDeviceGetCurrentClocksEventReasons.return_value = pynvml.nvmlClocksEventReasonSwPowerCap
    library.nvmlDeviceGetComputeRunningProcesses.return_value = []
    monkeypatch.setattr(nvml, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module ``benchmarks/recorded_power.py``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return import_module("recorded_power")


@pytest.fixture
def play(nvml_library: Any) -> Callable[[Any, Callable[[], float]], None]:
    """Lets NVML answer as a recorded card did, by a clock; what was not recorded it does not have."""

    def begin(recording: Any, clock: Callable[[], float]) -> None:
        nvml_library.nvmlDeviceGetPowerUsage.side_effect = lambda *_: round(1e3 * recording.at(clock())["power_w"])
        nvml_library.nvmlDeviceGetTemperature.side_effect = lambda *_: int(recording.at(clock())["temperature_c"])
        nvml_library.nvmlDeviceGetClockInfo.side_effect = lambda *_: int(recording.at(clock())["clock_mhz"])
        refused = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        nvml_library.nvmlDeviceGetTotalEnergyConsumption.side_effect = refused
        nvml_library.nvmlDeviceGetCurrentClocksEventReasons.side_effect = refused

    return begin


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a toolchain: those whose fixtures ask for one, or whose parameters name a dialect."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        # Fixtures that ask for a toolchain by `request.getfixturevalue` do not show it in their signature.
        indirect = {"job", "cases"} & fixtures or ("case" in fixtures and "conformance" in item.path.parts)
        if {"relay", "relay_python", "relax"} & fixtures or indirect:
            item.add_marker(pytest.mark.toolchain)


def _weight(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.random.default_rng(len(name)).normal(0, 0.3, shape).astype("float32"), name)


@pytest.fixture(scope="session")
def small_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """conv, batch norm, relu, pool, dense."""
    ones = numpy_helper.from_array(np.ones(8, "float32"), "var")
    constants = [_weight("w", 8, 3, 3, 3), _weight("scale", 8), _weight("shift", 8), _weight("mean", 8), ones]
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "dense"], ["y"], transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])
    graph = helper.make_graph(nodes, "small", [image], [output], [*constants, _weight("dense", 5, 8)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = tmp_path_factory.mktemp("network") / "small.onnx"
    onnx.save(model, str(path))
    return path
