from pathlib import Path

import pytest

from passsearch.toolchain import Finding, Toolchain, diagnose, doctor, registry


def _by_name() -> dict[str, Finding]:
    return {finding.name: finding for finding in diagnose()}


def test_missing_toolchain_comes_with_its_command(data_folder: Path) -> None:
    finding = _by_name()["dialect relay"]
    assert finding.ok is False
    assert finding.remedy == "Run: passsearch toolchain install relay"


def test_toolchain_that_does_not_answer(data_folder: Path, toolchain: Toolchain) -> None:
    registry.put(toolchain)
    toolchain.python.write_text("#!/bin/sh\nexit 1\n")
    findings = _by_name()
    assert findings["toolchain mine"].ok is False
    assert "toolchain remove mine" in findings["toolchain mine"].remedy


def test_damaged_registry_is_a_finding(data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "toolchains.json").write_text("{")
    assert "damaged" in _by_name()["toolchains"].detail


def test_no_c_compiler(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert _by_name()["c compiler"].ok is False


def test_whatever_fails_says_what_to_do(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISK_BYTES", 10**18)
    monkeypatch.setattr(doctor, "PYTHONS", ((3, 98), (3, 99)))
    failed = [finding for finding in diagnose() if finding.ok is False]
    assert {finding.name for finding in failed} >= {"python", "data folder", "cache folder", "dialect relay"}
    assert all(finding.remedy for finding in failed)


def test_findings_are_json(data_folder: Path) -> None:
    assert set(diagnose()[0].to_json()) == {"name", "ok", "detail", "remedy"}
