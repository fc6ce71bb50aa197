import re

import archspec.cpu
import pytest
from archspec.cpu import TARGETS, Microarchitecture

from passsearch.errors import UserError
from passsearch.toolchain import Toolchain, host, host_target, with_triple
from passsearch.toolchain.host import host_cpu, llvm_cpu


def test_triple_is_the_hosts_not_the_default_of_tvm(toolchain: Toolchain) -> None:
    assert re.fullmatch(r"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=\S+", host_target(toolchain))


@pytest.mark.parametrize(("cores", "end"), [(2, ""), (16, " -num-cores=16")])
def test_many_threads_are_named_where_schedules_take_account_of_them(
    cores: int, end: str, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "physical_cores", lambda: cores)
    assert host_target(toolchain, tiles_for_threads=True) == host_target(toolchain) + end


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("llvm", "llvm -mtriple=x86_64-unknown-linux-gnu"),
        ("llvm -mcpu=znver3", "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver3"),
        ("llvm -mtriple=aarch64-linux-gnu", "llvm -mtriple=aarch64-linux-gnu"),
        ("cuda -arch=sm_80", "cuda -arch=sm_80"),
    ],
)
def test_a_target_without_a_triple_gets_that_of_this_machine(toolchain: Toolchain, target: str, expected: str) -> None:
    assert with_triple(target, toolchain) == expected


@pytest.mark.parametrize("target", ["", " "])
def test_a_blank_target_is_refused(toolchain: Toolchain, target: str) -> None:
    with pytest.raises(UserError, match="The target is empty"):
        with_triple(target, toolchain)


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
def test_cpu_has_the_name_that_llvm_uses(host: str, llvm: str, expected: str) -> None:
    assert llvm_cpu(TARGETS[host], llvm) == expected


@pytest.mark.parametrize(
    ("hidden", "expected"),
    [
        ({"rdseed", "pku", "movdiri"}, "zen5"),
        ({"rdseed", "avx512_vp2intersect"}, "zen4"),
        ({"rdseed", "avx512_bf16"}, "x86_64_v4"),
        ({"rdseed", "avx2"}, "x86_64_v2"),
    ],
)
def test_a_processor_with_hidden_features_is_the_newest_whose_code_it_runs(
    hidden: set[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def detected() -> Microarchitecture:
        return Microarchitecture("", [], "AuthenticAMD", set(TARGETS["zen5"].features - hidden), {})

    levels = [TARGETS[name] for name in ("x86_64_v2", "x86_64_v3", "x86_64_v4")]
    level = [cpu for cpu in levels if cpu.features <= detected().features][-1]
    monkeypatch.setattr(archspec.cpu, "host", lambda: level)
    monkeypatch.setattr(host, "detected_info", detected)
    assert host_cpu().name == expected


def test_a_processor_that_is_known_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archspec.cpu, "host", lambda: TARGETS["icelake"])
    assert host_cpu() == TARGETS["icelake"]


def test_unknown_cpu_is_generic() -> None:
    assert llvm_cpu(Microarchitecture("strange", [], "unknown", set(), {}), "") == "generic"
