"""Fixtures that tests of several rooms share."""

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import create_autospec

import numpy as np
import onnx
import pynvml
import pytest
from numpy.typing import ArrayLike
from onnx import NodeProto, TensorProto, helper, numpy_helper

from passsearch.engines import engine_environments
from passsearch.errors import PassSearchError
from passsearch.measure import nvml
from passsearch.toolchain import Toolchain, engine_python, get_toolchain
from passsearch.toolchain.install import installed_frameworks

ToolchainOf: TypeAlias = Callable[[str], Toolchain]


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary user's cache folder for fixtures that outlive one test."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty user's cache folder for each test, so that no test finds facts of another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def text_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """The width of printed texts where there is no terminal, wherever the tests run."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="session")
def toolchain_of() -> ToolchainOf:
    """Return a function that returns the toolchain of a dialect, and skips the test if none is installed.

    Tests that use it, directly or through another fixture, get the mark ``toolchain``.
    """

    def find(dialect: str) -> Toolchain:
        try:
            return get_toolchain(dialect=dialect)
        except PassSearchError as error:
            pytest.skip(f"needs a toolchain: {error}")

    return find


@pytest.fixture(scope="session")
def relay(toolchain_of: ToolchainOf) -> Toolchain:
    """The installed toolchain with Relay; `make test` installs one."""
    return toolchain_of("relay")


@pytest.fixture(scope="session")
def relax(toolchain_of: ToolchainOf) -> Toolchain:
    """The installed toolchain with Relax; `make test` installs one."""
    return toolchain_of("relax")


@pytest.fixture(scope="session")
def cuda_relax(relax: Toolchain) -> Toolchain:
    """The Relax toolchain with CUDA's libraries; `make test` installs them."""
    if "cuda" not in installed_frameworks(relax):
        pytest.skip("needs: passsearch toolchain install relax --with cuda")
    return relax


def _engine_python(name: str) -> Path:
    variable = os.environ.get("PASSSEARCH_ENGINES_PYTHON")
    python = Path(variable) if variable else engine_python(engine_environments()[name])
    if python is None:
        pytest.skip(f"needs: passsearch toolchain install {name} (or PASSSEARCH_ENGINES_PYTHON)")
    return python


@pytest.fixture(scope="session")
def onnxruntime_python() -> Path:
    """An interpreter with ONNX Runtime."""
    return _engine_python("onnxruntime")


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """An interpreter with PyTorch, as the engine that runs ONNX files."""
    return _engine_python("torch")


@pytest.fixture(scope="session")
def xla_python() -> Path:
    """An interpreter with JAX."""
    return _engine_python("xla")


@pytest.fixture(scope="session")
def openvino_python() -> Path:
    """An interpreter with OpenVINO."""
    return _engine_python("openvino")


@pytest.fixture(scope="session")
def nncf_python() -> Path:
    """An interpreter with OpenVINO and NNCF."""
    return _engine_python("nncf")


@pytest.fixture(scope="session")
def relay_python(relay: Toolchain) -> Path:
    """The interpreter of the Relay toolchain."""
    return relay.python


@pytest.fixture
def nvml_library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A substitute for NVML with its real names and signatures and two GPUs; a handle is the index of its GPU."""
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
    library.nvmlDeviceGetUtilizationRates.return_value = SimpleNamespace(gpu=97, memory=40)
    library.nvmlDeviceGetMigMode.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    monkeypatch.setattr(nvml, "pynvml", library)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return library


@pytest.fixture
def load_benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Return a function that imports a module of ``benchmarks/`` by its name, such as ``faults.soak``."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    return lambda name: import_module(f"benchmarks.{name}")


@pytest.fixture
def recordings(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/measurement/recorded_power.py``."""
    return load_benchmark("measurement.recorded_power")


@pytest.fixture
def play(nvml_library: Any) -> Callable[[Any, Callable[[], float]], None]:
    """Return a function that makes NVML answer as a recorded card did at the time of a clock.

    Counters that were not recorded are not supported.
    """

    def begin(recording: Any, clock: Callable[[], float]) -> None:
        nvml_library.nvmlDeviceGetPowerUsage.side_effect = lambda *_: round(1e3 * recording.at(clock())["power_w"])
        nvml_library.nvmlDeviceGetTemperature.side_effect = lambda *_: int(recording.at(clock())["temperature_c"])
        nvml_library.nvmlDeviceGetClockInfo.side_effect = lambda *_: int(recording.at(clock())["clock_mhz"])
        unsupported = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        nvml_library.nvmlDeviceGetTotalEnergyConsumption.side_effect = unsupported
        nvml_library.nvmlDeviceGetUtilizationRates.side_effect = unsupported
        nvml_library.nvmlDeviceGetCurrentClocksEventReasons.side_effect = unsupported

    return begin


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need a toolchain."""
    for item in items:
        if "toolchain_of" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.toolchain)


def _constant(name: str, values: ArrayLike) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values, "float32"), name)


def _weight(name: str, *shape: int) -> TensorProto:
    return _constant(name, np.random.default_rng(len(name)).normal(0, 0.3, shape))


def _save(path: Path, nodes: list[NodeProto], constants: list[TensorProto], *, output: list[int]) -> Path:
    """Write an ONNX file with the input `image` and the output `y`."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, output)
    graph = helper.make_graph(nodes, path.stem, [image], [result], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


@pytest.fixture(scope="session")
def small_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of convolution, batch norm, relu, pooling and dense."""
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "dense"], ["y"], transB=1),
    ]
    batch_norm = [_weight("scale", 8), _weight("shift", 8), _weight("mean", 8), _constant("var", np.ones(8))]
    constants = [_weight("w", 8, 3, 3, 3), *batch_norm, _weight("dense", 5, 8)]
    return _save(tmp_path_factory.mktemp("network") / "small.onnx", nodes, constants, output=[1, 5])


@pytest.fixture(scope="session")
def tiny_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of batch norm and relu, which compiles in less than half the time of the small one."""
    nodes = [
        helper.make_node("BatchNormalization", ["image", "scale", "shift", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    # Inputs of zeros must give outputs that are not all zero: deviations are shares of the largest output.
    batch_norm = {"scale": [1.0, -0.5, 2.0], "shift": [0.5, 1.0, -0.5], "mean": [0.1, 0.2, 0.3], "var": [1.0, 2.0, 0.5]}
    constants = [_constant(name, values) for name, values in batch_norm.items()]
    return _save(tmp_path_factory.mktemp("network") / "tiny.onnx", nodes, constants, output=[1, 3, 16, 16])
