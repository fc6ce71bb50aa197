"""The GPU and a toolchain whose TVM can use it. Without them every test here is skipped with the reason."""

import pytest

from passsearch.measure import probe
from passsearch.toolchain import Toolchain, list_toolchains


@pytest.fixture(scope="session")
def cuda() -> Toolchain:
    """The first toolchain whose TVM found a CUDA device when the toolchain was added."""
    sensors = probe("cuda:0")
    if "uuid" not in sensors.device:
        pytest.skip(sensors.unavailable["power_w"])
    toolchains = [toolchain for toolchain in list_toolchains() if toolchain.cuda_device]
    if not toolchains:
        pytest.skip(
            "no toolchain here has a TVM that can use the GPU; see: passsearch toolchain add NAME --python PATH"
        )
    return toolchains[0]
