import re
from dataclasses import replace

import archspec.cpu
import pytest

from passsearch.toolchain import Toolchain, host_target
from passsearch.toolchain.host import llvm_cpu


def test_triple_is_the_hosts_not_tvms_default(toolchain: Toolchain) -> None:
    assert re.fullmatch(r"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=\S+", host_target(toolchain))


@pytest.mark.parametrize(
    ("host", "llvm", "expected"),
    [
        ("zen3", "17.0.6", "znver3"),
        ("zen3", "11.1.0", "znver2"),
        ("zen5", "17.0.6", "znver4"),
        ("skylake_avx512", "", "skylake-avx512"),
        ("x86_64_v3", "17.0.6", "x86-64-v3"),
        ("neoverse_v1", "17.0.6", "neoverse-v1"),
        ("m1", "17.0.6", "apple-m1"),
        ("aarch64", "17.0.6", "generic"),
        ("power9le", "17.0.6", "power9"),
    ],
)
def test_cpu_in_llvms_words(host: str, llvm: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archspec.cpu, "host", lambda: archspec.cpu.TARGETS[host])
    assert llvm_cpu(llvm) == expected


def test_cpu_nobody_knows(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = archspec.cpu.Microarchitecture("strange", [], "nobody", set(), {})
    monkeypatch.setattr(archspec.cpu, "host", lambda: strange)
    assert host_target(replace(toolchain, llvm_version="")).endswith("-mcpu=generic")
