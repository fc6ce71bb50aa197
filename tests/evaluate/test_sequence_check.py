"""Sequences are reached through shared states and in a process of their own, and what differs is named."""

import shutil
from pathlib import Path

import pytest

import passsearch
from passsearch.catalog import NamedSequence
from passsearch.core import Pipeline
from passsearch.evaluate import check_sequences
from passsearch.toolchain import Toolchain

DATA = Path(__file__).parents[1] / "data"
CATALOG = """
passes:
  - {name: Restless, summary: Adds a random number., factory: "bad_passes:restless", opt_level: 0}
  - {name: Refuse, summary: Fails., factory: "bad_passes:refuse", opt_level: 0}
"""


@pytest.mark.toolchain
def test_a_sequence_that_depends_on_its_process_is_named(relax: Toolchain, small_network: Path, tmp_path: Path) -> None:
    shutil.copy(DATA / "bad_relax_passes.py", tmp_path / "bad_passes.py")
    (tmp_path / "own.yaml").write_text(CATALOG)
    pipelines = {
        "plain": "DecomposeOpsForInference,LegalizeOps,ScheduleCPU",
        "restless": "Restless,LegalizeOps",
        "refused": "Refuse,LegalizeOps",
        "for a GPU": "LegalizeOps,ScheduleGPU",
    }
    sequences = [NamedSequence(name, "", Pipeline.parse(text)) for name, text in pipelines.items()]
    catalogs = [tmp_path / "own.yaml"]
    with passsearch.session(small_network, toolchain=relax.name, catalogs=catalogs, remember=False) as evaluator:
        plain, restless, refused = check_sequences(evaluator, sequences)
    assert (plain.problem, plain.refusal) == ("", "") and plain.state
    assert "a fresh process reaches another IR" in restless.problem
    assert "this pass refuses" in refused.refusal and not refused.problem
