"""A GPU and a toolchain whose TVM sees it; without, every test here is skipped with the reason."""

import pytest

from passsearch.measure import probe
from passsearch.toolchain import Toolchain, list_toolchains


@pytest.fixture(scope="session")
def cuda() -> Toolchain:
    """The first toolchain that saw a CUDA device when it was added."""
    sensors = probe("cuda:0")
    if "uuid" not in sensors.device:
        pytest.skip(sensors.unavailable["power_w"])
    found = [each for each in list_toolchains() if each.cuda_device]
    if not found:
        pytest.skip("no toolchain here has a TVM that sees the GPU; see: passsearch toolchain add NAME --python PATH")
    return found[0]
