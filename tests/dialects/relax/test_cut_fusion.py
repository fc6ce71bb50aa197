"""Cuts of fusion: where they can be, and that they split kernels and change no results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from fusion_graphs import GRAPHS

from passsearch.catalog import load
from passsearch.core import Pipeline

CUTS = {
    "gelu": {0: {"reduction"}, 1: {"shared"}, 2: {"tail"}},
    "row statistics": {0: {"broadcast", "reduction"}, 3: {"reduction"}, 5: {"broadcast"}},
    "heads": {0: {"layout"}, 1: {"layout"}},
    "halves": {0: {"layout"}},
    "gate": {0: {"broadcast"}},
}
"""The reasons of every cut by network and value."""

BY_DEFAULT = {"gate": "[0]", "exponentials": "[23]"}
"""Networks that ``CutFusion`` without arguments cuts, and where."""


@pytest.fixture
def results(cases: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> dict[str, dict[str, Any]]:
    for name, make in GRAPHS.items():
        onnx.save(make(), tmp_path / f"{name}.onnx")
    return {case["case"]: case for case in cases("cut_cases.py", str(tmp_path))}


def test_a_cut_splits_a_kernel_and_changes_no_result(results: dict[str, dict[str, Any]]) -> None:
    messages = results.pop("errors")["messages"]
    assert [messages[position].count("CutFusion takes positions of") for position in ("-1", "2", "99")] == [1, 1, 1]

    for name, case in results.items():
        is_cut = not name.endswith("cut at []")
        assert case["well_formed"] and case["same"] and case["stays_cut"], case
        assert (case["more_kernels"] > 0, case["changed"]) == (is_cut, is_cut), case

    single = {name: case["cuts"][0] for name, case in results.items() if len(case["cuts"]) == 1}
    for network, reasons in CUTS.items():
        actual = {cut["value"]: {*cut["reasons"]} for name, cut in single.items() if name.startswith(f"{network} cut")}
        assert actual == reasons

    for network in (*CUTS, "exponentials", "pools"):
        assert f"{network} cut at {BY_DEFAULT.get(network, '[]')}" in results


def test_a_cut_prints_and_parses() -> None:
    text = "LegalizeOps,AnnotateTIROpPattern,CutFusion{values=[3,17]},FuseOps"
    assert str(Pipeline.parse(text)) == text
    assert str(load("relax").entry("CutFusion").variants()[0]) == "CutFusion"
