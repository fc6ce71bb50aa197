from dataclasses import replace
from pathlib import Path

import pytest

from passsearch.toolchain import Finding, Toolchain, cache_folder, diagnose
from passsearch.toolchain.doctor import Requirements
from passsearch.toolchain.registry import register


def _findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in diagnose()}


def test_missing_toolchain_comes_with_its_command(data_folder: Path) -> None:
    finding = _findings()["dialect relay"]
    assert finding.ok is False
    assert finding.remedy == "Run: passsearch toolchain install relay"


def test_toolchain_that_does_not_answer(data_folder: Path, toolchain: Toolchain, programs: Path) -> None:
    register(replace(toolchain, python=programs / "exits_with_3.sh"))
    findings = _findings()
    assert findings["toolchain mine"].ok is False
    assert "toolchain remove mine" in findings["toolchain mine"].remedy


def test_damaged_registry_is_a_finding(data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "toolchains.json").write_text("{")
    assert "damaged" in _findings()["toolchains"].detail


def test_no_c_compiler(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert _findings()["c compiler"].ok is False


def test_every_failed_check_has_a_remedy(data_folder: Path) -> None:
    requirements = Requirements(pythons=((3, 98), (3, 99)), data_bytes=10**18, cache_bytes=10**18)
    failures = [finding for finding in diagnose(requirements) if finding.ok is False]
    assert {finding.name for finding in failures} >= {"python", "data folder", "cache folder", "dialect relay"}
    assert all(finding.remedy for finding in failures)


def test_findings_are_json(data_folder: Path) -> None:
    assert set(diagnose()[0].to_json()) == {"name", "ok", "detail", "remedy"}


def test_one_toolchain_suffices(data_folder: Path, toolchain: Toolchain) -> None:
    register(toolchain)

    missing = [finding for name, finding in _findings().items() if name.startswith("dialect ")]

    assert missing
    assert all(finding.ok is None and "toolchain install" in finding.remedy for finding in missing)


def test_the_cache_is_described_by_its_largest_folders(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cache_folder() / "runs"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(1000))
    assert "runs 0.0 GB" in _findings()["cache folder"].detail
    monkeypatch.setenv("PASSSEARCH_CACHE_GB", "0")
    assert "runs clean" in _findings()["cache folder"].remedy
