"""The cases of the fault matrix: a torn log in the default suite, all of them in the slow one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.store import Log
from passsearch.toolchain import Toolchain


@pytest.fixture
def matrix(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/faults/fault_matrix.py``."""
    return load_benchmark("faults.fault_matrix")


def problems(document: dict[str, Any]) -> list[str]:
    """Return the rows that are not as they should be."""
    counts = ("facts_lost", "false_failures", "orphans", "files_left")
    rows = document["rows"].values()
    return [str(row) for row in rows if row["outcome"] == "NOT AS EXPECTED" or any(row[count] for count in counts)]


@pytest.mark.slow
def test_a_torn_log_costs_nothing(relax: Toolchain, matrix: Any, tmp_path: Path) -> None:
    document = matrix.run("log: a torn last line", again=False, jobs=1, results=tmp_path / "matrix.json")
    assert len(document["rows"]) == 1 and not problems(document)
    row = "| read again | log: a torn last line |"
    assert row in matrix.table(json.loads((tmp_path / "matrix.json").read_text()))


def test_only_a_fact_that_holds_counts_when_it_is_made_again(matrix: Any, tmp_path: Path) -> None:
    def place(name: str, *facts: dict[str, Any]) -> Any:
        home = tmp_path / name
        (home / "run").mkdir(parents=True)
        (home / "run" / "result.json").write_text(json.dumps({"failed": []}))
        with Log(home / "run" / "log.jsonl") as log:
            for fact in facts:
                log.record("build", "state|O3", fact=fact)
        return matrix.Place(home, home / "network.onnx")

    whole, cut, killed = {"digest": "a"}, {"digest": "a", "is_cut": True}, {"failure": {"kind": "infra"}}
    reference = matrix.Reference(place("reference", whole))
    for number, facts in enumerate([(whole,), (cut, whole), (killed, killed, cut, whole)]):
        assert reference.check(place(f"well-{number}", *facts), []) == ([], [])
    for number, facts in enumerate([(whole, whole), (cut, whole, whole)]):
        lost, false = reference.check(place(f"twice-{number}", *facts), [])
        assert lost == ["twice: ('build', 'state|O3')"] and not false


def test_another_winner_leaves_no_more_files_and_a_third_artifact_does(matrix: Any, tmp_path: Path) -> None:
    def files(name: str, *artifacts: str) -> set[str]:
        for artifact in artifacts:
            folder = tmp_path / name / "run" / "artifacts" / artifact
            folder.mkdir(parents=True)
            (folder / "network.so").touch()
        found: set[str] = matrix.Place(tmp_path / name, tmp_path / "network.onnx").files()
        return found

    reference = files("reference", "19ce344331660609-O1", "19ce344331660609-O3")
    assert files("other", "0123456789abcdef-O0_-x", "19ce344331660609-O3") == reference
    more = files("more", "19ce344331660609-O0", "19ce344331660609-O1", "19ce344331660609-O3")
    assert len(more - reference) == 1
    assert files("partial", "19ce344331660609-O1.partial") - reference


@pytest.mark.slow
def test_no_fault_costs_anything(relax: Toolchain, matrix: Any, tmp_path: Path) -> None:
    document = matrix.run("", again=False, jobs=2, results=tmp_path / "matrix.json")
    assert len(document["rows"]) == len(matrix.cases()) + len(matrix.hostile_passes())
    assert not problems(document)
