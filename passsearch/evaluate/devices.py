"""Devices that targets name: their driver, their lock, and what a target leaves open."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

from passsearch.core import suggest_name
from passsearch.errors import UserError
from passsearch.measure import Sensors
from passsearch.toolchain import TARGET_KINDS, Toolchain, lock_file, target_kind, target_options, with_triple

_log = logging.getLogger(__name__)


def has_driver() -> bool:
    """Return whether this machine has NVIDIA's driver, natively or in WSL."""
    return any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg"))


def device_lock(gpu: str | None) -> Path | None:
    """Return the lock file of the GPU with this UUID; ``None`` without one."""
    return lock_file(f"{gpu}.lock") if gpu else None


def device_of(target: str) -> str:
    """Return the device that runs what is compiled for a target, from the target's kind."""
    # TVM has names for whole cards as well, such as `nvidia/nvidia-a100`.
    options = target_options(target)
    kind = str(options.get("kind") or options.get("tag") or target)
    return "cuda:0" if kind.startswith(("cuda", "nvidia/")) else "cpu"


def complete_target(target: str, toolchain: Toolchain, probe_sensors: Callable[[str], Sensors]) -> str:
    """Return the user's target with what it leaves open: the triple of a CPU, the architecture of a GPU.

    Raises:
        UserError: No GPU reports its architecture, or the kind of target is a known one mistyped.
    """
    complete = with_triple(target, toolchain)
    kind = target_kind(target)
    # A compiler may know other kinds.
    if kind not in TARGET_KINDS and (guess := suggest_name(kind, TARGET_KINDS)):
        raise UserError(f"Impossible target `{target}`: there is no kind `{kind}`; {guess}")
    return _with_architecture(complete, probe_sensors)


def _with_architecture(target: str, probe_sensors: Callable[[str], Sensors]) -> str:
    """Return the target; one of CUDA that names no architecture gets the architecture of the GPU that will run it."""
    # TVM would ask the driver for it, in a process whose forks could not use CUDA from then on.
    options = target_options(target)
    is_complete = "arch" in options if options else re.search(r"\s-+arch[=\s]", target)
    if options.get("kind", target.split()[0]) != "cuda" or is_complete:
        return target
    sensors = probe_sensors(device_of(target))
    if "arch" not in sensors.device:
        raise UserError(
            f"Target `{target}` names no architecture, and no GPU here reports one "
            f"({sensors.unavailable['power_w']}). Give it, for example: cuda -arch=sm_80"
        )
    _log.debug("target `%s` names no architecture; the GPU reports %s", target, sensors.device["arch"])
    arch = sensors.device["arch"]
    return json.dumps({**options, "arch": arch}) if options else f"{target} -arch={arch}"
