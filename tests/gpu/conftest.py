"""The GPU and a toolchain whose TVM can use it. Without them every test here is skipped with the reason."""

import pytest

from passsearch.measure import probe
from passsearch.toolchain import Toolchain, list_toolchains
from passsearch.toolchain import probe as probe_toolchain


@pytest.fixture(scope="session")
def cuda() -> Toolchain:
    """The first toolchain whose TVM finds a CUDA device."""
    sensors = probe("cuda:0")
    if "uuid" not in sensors.device:
        pytest.skip(sensors.unavailable["power_w"])
    # Asked now: the toolchain may have been installed on a login node, which has no device.
    toolchains = [each for each in list_toolchains() if each.cuda and probe_toolchain(each.python).cuda_device]
    if not toolchains:
        pytest.skip(
            "no toolchain here has a TVM that can use the GPU; see: passsearch toolchain install relax --with cuda"
        )
    return toolchains[0]
