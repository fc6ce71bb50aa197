"""Toolchains, which are Python interpreters with one TVM each: install, register, probe and diagnose them."""

from passsearch.toolchain.doctor import Finding, diagnose, require_c_compiler
from passsearch.toolchain.engine_environments import (
    engine_python,
    install_engine,
    installed_versions,
    remove_engine,
)
from passsearch.toolchain.folders import (
    RUN_VARIABLE,
    cache_folder,
    cache_limit_bytes,
    cache_problem,
    data_folder,
    lock_file,
    run_limit_bytes,
    user_cache_folder,
)
from passsearch.toolchain.host import (
    TARGET_KINDS,
    host_target,
    target_cpu,
    target_kind,
    target_options,
    target_triple,
    vector_bits,
    with_triple,
)
from passsearch.toolchain.install import install, is_current
from passsearch.toolchain.probe import ProbeResult, probe
from passsearch.toolchain.record import Toolchain
from passsearch.toolchain.registry import add_toolchain, get_toolchain, list_toolchains, remove_toolchain

__all__ = [
    "RUN_VARIABLE",
    "TARGET_KINDS",
    "Finding",
    "ProbeResult",
    "Toolchain",
    "add_toolchain",
    "cache_folder",
    "cache_limit_bytes",
    "cache_problem",
    "data_folder",
    "diagnose",
    "engine_python",
    "get_toolchain",
    "host_target",
    "install",
    "install_engine",
    "installed_versions",
    "is_current",
    "list_toolchains",
    "lock_file",
    "probe",
    "remove_engine",
    "remove_toolchain",
    "require_c_compiler",
    "run_limit_bytes",
    "target_cpu",
    "target_kind",
    "target_options",
    "target_triple",
    "user_cache_folder",
    "vector_bits",
    "with_triple",
]
