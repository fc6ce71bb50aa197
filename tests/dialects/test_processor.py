"""What the code of a processor needs is compared with what another one has."""

import platform
from pathlib import Path

import pytest

from passsearch.standalone.deployment import processor

V4 = "ssse3 fma sse4_1 sse4_2 movbe popcnt avx f16c abm bmi1 avx2 bmi2 avx512f avx512dq avx512cd avx512bw avx512vl"
ICE_LAKE = (
    "64bit aes avx avx2 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vbmi2 avx512vl "
    "avx512vnni avx512vpopcntdq bmi bmi2 f16c fma gfni lzcnt movbe popcnt prefer-256-bit sse4.1 sse4.2 ssse3"
)
V3 = "avx avx2 bmi bmi2 f16c fma lzcnt movbe popcnt sse4.1 sse4.2 ssse3"


@pytest.mark.parametrize(
    ("features", "lacking"),
    [
        (
            ICE_LAKE,
            "avx512_vnni avx512vbmi avx512_vbmi2 avx512ifma avx512_vpopcntdq avx512_bitalg gfni",
        ),
        (V3, ""),
        ("sse4a", "sse4a"),
        ("neon sve sve2 rdm complxnum", "asimd asimdrdm fcma sve sve2"),
    ],
)
def test_code_of_a_newer_processor_lacks_what_it_uses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, features: str, lacking: str
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {V4}\n\nprocessor : 1\nflags : {V4} gfni\n")
    monkeypatch.setattr(processor, "CPU_INFO", tmp_path / "cpuinfo")
    needed = processor.needs(features.split())
    assert processor.missing(platform.machine(), needed) == lacking.split()
