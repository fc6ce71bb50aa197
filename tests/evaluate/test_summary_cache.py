"""The graph of a network that was imported before is read from a file."""

import logging
from pathlib import Path
from typing import Any

import pytest

import passsearch
from passsearch.api.results import Analysis
from passsearch.toolchain import Toolchain

TOLD = "the graph of zoo:resnet_tiny is that of an earlier import"


def analyze(toolchain: Toolchain, caplog: pytest.LogCaptureFixture) -> tuple[Analysis, bool]:
    """Return an analysis, and whether it read the graph from the cache."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "passsearch"):
        return passsearch.analyze("zoo:resnet_tiny", toolchain=toolchain.name), TOLD in caplog.text


def without_seconds(analysis: Analysis) -> dict[str, Any]:
    document = analysis.to_json()
    del document["recommendation"]["seconds"]
    return document


def test_a_second_analysis_needs_no_compiler(
    relax: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, was_cached = analyze(relax, caplog)
    assert not was_cached
    second, was_cached = analyze(relax, caplog)
    assert was_cached
    assert without_seconds(second) == without_seconds(first)

    (file,) = (tmp_path / "passsearch" / "graphs").iterdir()
    file.write_text(file.read_text().replace("conv2d", "conv3d", 1))
    third, was_cached = analyze(relax, caplog)
    assert not was_cached, "a damaged file is made again"
    assert without_seconds(third) == without_seconds(first)
