"""The catalog contradicts the paper exactly where the committed measurements do."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from passsearch.catalog import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "reproduction" / "cf22"))
    import tables  # type: ignore[import-not-found]

    yield tables
    for name in ("tables", "networks", "figures", "cells", "compile_times", "selections"):
        sys.modules.pop(name, None)


@pytest.fixture
def documents() -> dict[str, Any]:
    files = sorted((ROOT / "benchmarks" / "results" / "relay" / "cf22").glob("*.json"))
    return {file.stem: json.loads(file.read_text()) for file in files}


def test_the_catalog_marks_what_the_measurements_contradict(tables: Any, documents: dict[str, Any]) -> None:
    _, _, rows = tables.contradictions(documents)
    marked = [
        [entry.name, category, evidence]
        for entry in load("relay").entries.values()
        for category, evidence in entry.contradicted.items()
    ]
    assert sorted(rows) == sorted(marked) != []


def test_the_page_and_its_files_have_the_tables_that_the_script_prints(tables: Any, documents: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "evidence" / "paper.md").read_text()
    by_name = {name: documents[name] for name in tables.NETWORKS if name in documents}
    for make in (tables.against_o3, tables.graph_passes):
        name, heads, rows = make(by_name)
        assert tables.markdown(heads, rows) in page, name
    files = (tables.levels, tables.floors, tables.passes, tables.table3, tables.table5, tables.effects, tables.kernels)
    for make in files:
        name, heads, rows = make(by_name)
        with (ROOT / "docs" / "evidence" / "paper" / f"{name}.csv").open(newline="") as file:
            assert list(csv.reader(file)) == [heads, *rows], name


def test_a_winner_that_a_baseline_or_a_sampler_found_is_not_called_the_catalogs(tables: Any) -> None:
    import cells  # type: ignore[import-not-found]

    found = [{"kind": "baseline", "name": "O4"}, {"kind": "explored state", "name": "graph"}]
    names = [cells.source({"best": {"name": "O4", "source": source}}) for source in found]
    assert names == ["TVM's level O4", "explored state"]


def test_a_selection_names_the_pass_that_was_put_in(tables: Any, documents: dict[str, Any]) -> None:
    _, heads, rows = tables.selections(documents)
    cells = {(row[0], row[1]): row[heads.index("put in")] for row in rows}
    assert cells["ssd_resnet50_pytorch", "BL"] == "SimplifyInference"
    assert cells["ssd_resnet50_pytorch", "PO-2"] == "nothing"
    assert cells["ssd_resnet50_pytorch", "AS-best"] == cells["ssd_resnet50_pytorch", "O3"] == "–"


def test_a_users_own_results_make_the_tables_whichever_steps_they_have(
    tables: Any, documents: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = documents["resnet50_pytorch"]
    for step in ("agree", "analyze", "compile_time", "throughput", "audit", "profile", "compare", "acts"):
        own = {key: value for key, value in network.items() if key != step}
        (tmp_path / "resnet50_pytorch.json").write_text(json.dumps(own))
        tables.main(["--results", str(tmp_path)])
        printed = capsys.readouterr().out
        assert "| resnet50_pytorch |" in printed and "mobilenet_v2_pytorch" not in printed, step


def test_tables_without_results_or_matplotlib_say_what_is_missing(
    tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"No result of `run\.py` in `.*`; --results names its folder"):
        tables.main(["--results", str(tmp_path)])
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="the figures need matplotlib: pip install matplotlib"):
        tables.main(["--out", str(tmp_path)])
    assert (tmp_path / "selections.csv").exists()
