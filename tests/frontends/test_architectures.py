"""Architectures that people have are taken on both dialects, and compute what their framework computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from architectures import ARCHITECTURES

from passsearch.toolchain import Toolchain

QUICK = ("onnx-reshape-computed", "onnx-empty-initializers", "onnx-branch-of-shape")
AIMS = {"relax": 0.9, "relay": 0.7}


def reached(name: str, dialect: str, benchmark: Any, folder: Path) -> dict[str, Any]:
    entry = ARCHITECTURES[name]
    if entry.missing:
        pytest.skip(entry.missing)
    answer: dict[str, Any] = {}
    for found in benchmark.answers(entry.make(folder), dialect):
        answer |= found
    return answer


@pytest.mark.parametrize("dialect", AIMS)
@pytest.mark.parametrize("name", QUICK)
def test_an_awkward_onnx_network_computes_what_onnx_defines(
    name: str, dialect: str, toolchain_of: Callable[[str], Toolchain], load_benchmark: Any, tmp_path: Path
) -> None:
    toolchain_of(dialect)
    answer = reached(name, dialect, load_benchmark("imports.import_networks"), tmp_path)
    assert answer["step"] == "equal", answer


def test_a_decoder_computes_what_transformers_computes(relax: Toolchain, load_benchmark: Any, tmp_path: Path) -> None:
    answer = reached("LlamaForCausalLM", relax.dialect, load_benchmark("imports.import_networks"), tmp_path)
    assert (answer["step"], answer["route"]) == ("equal", "onnx"), answer


@pytest.mark.slow
@pytest.mark.parametrize("dialect", AIMS)
def test_most_of_the_list_is_taken(
    dialect: str, toolchain_of: Callable[[str], Toolchain], load_benchmark: Any, tmp_path: Path
) -> None:
    toolchain_of(dialect)
    networks = load_benchmark("imports.import_networks")
    tried = {name: entry for name, entry in ARCHITECTURES.items() if not entry.missing}
    answers = {name: networks.in_own_process(name, timeout_s=300, dialects=(dialect,))[dialect] for name in tried}
    refused = {name: answer for name, answer in answers.items() if answer["step"] != "equal"}
    assert all("\n" not in answer.get("reason", "") for answer in refused.values())
    assert 1 - len(refused) / len(tried) >= AIMS[dialect], refused


def test_names_in_the_list_are_distinct_and_many() -> None:
    assert len(ARCHITECTURES) >= 60
