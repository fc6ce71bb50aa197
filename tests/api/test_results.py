"""Results of API functions as an interpreter or a notebook shows them."""

import builtins
import json
import re
from pathlib import Path
from typing import Any

import pytest

from passsearch.api import TuneResult, catalog_entry
from passsearch.api.results import Ablation, Analysis, Audit, Comparison
from passsearch.catalog import load, select_passes
from passsearch.core import Feature, Fingerprint, ModuleSummary, Operator, TensorType
from passsearch.dialects import DIALECTS

DATA = Path(__file__).parents[1] / "report" / "data"
ABLATION = Path(__file__).parents[1] / "data" / "ablations" / "resnet_tiny-relax.json"


@pytest.fixture
def document() -> dict[str, Any]:
    """A run's result with as many samples as a run has."""
    result: dict[str, Any] = json.loads((DATA / "result.json").read_text())
    for row in ("baseline", "best"):
        result[row]["latency_s"]["samples"] *= 300
    return result


class ZMQInteractiveShell:
    """The class by whose name rich recognises a notebook."""


def test_the_text_of_a_result_has_its_table_in_a_notebook_too(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = TuneResult(document, Path("run"))
    text = str(result)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)

    assert str(result) == text and "latency ms" in text
    assert capsys.readouterr().out == "", "nothing is displayed beside the result"


def test_the_winner_is_one_line(document: dict[str, Any]) -> None:
    text = repr(TuneResult(document, Path("run")).best)

    assert text.startswith("SimplifyInference,AlterOpLayout,FoldConstant")
    assert text.endswith("then build at opt_level=0: 29.09 [29.06, 29.12] ms an inference, compiled in 7.38 s")


@pytest.fixture
def analysis() -> Analysis:
    """The analysis of 900 operators."""
    kind = TensorType((1, 64), "float32")
    operators = tuple(Operator(index, "dense" if index % 2 else "add", "nn.dense", (), (kind,)) for index in range(900))
    fingerprint = Fingerprint({"batch_norm": Feature(3, 1), "attention": Feature(0)})
    selection = select_passes(load(next(iter(DIALECTS))), (), fingerprint=fingerprint)
    return Analysis(ModuleSummary(operators, (899,)), fingerprint, (), selection)


def test_an_analysis_is_a_few_lines(analysis: Analysis) -> None:
    lines, selection = repr(analysis).splitlines(), analysis.selection

    assert lines[:3] == ["900 operators: 450 add, 450 dense", "features: 3 x batch_norm", "classes: none"]
    assert lines[3].startswith(f"passes: {len(selection.candidates)} candidates: ")
    assert len(lines) == 4 and len(lines[3]) < 2000
    assert repr(selection.others[0]) == f"{selection.others[0].entry.name}: {selection.others[0].reason}"


def comparison_of(document: dict[str, Any], *, baseline: str, rows: list[dict[str, Any]]) -> Comparison:
    """Return a comparison of these pipelines."""
    measured = {"protocol": "paired", "cache": "warm", "level": 0.95, "processes": 6, "noise_floor": 0.01, "pairs": []}
    return Comparison({**document, **measured, "baseline": baseline, "rows": rows})


def audit_of(*checks: dict[str, Any]) -> Audit:
    """Return an audit with these checks."""
    compiler = {"name": "relax", "dialect": "relax", "tvm_version": "0.27"}
    audit: dict[str, Any] = dict.fromkeys(("level", "ratios", "sequence", "seconds"))
    audit |= {"schema": "passsearch/1", "measured_at": "2026-11-24T18:35:10+00:00", "toolchain": compiler}
    audit |= {"claimed": {}, "device": {}}
    return Audit({**audit, "checks": [*checks], "signed_off": all(check["ok"] for check in checks)})


def test_comparison_and_audit_print_as_tables_and_are_json(document: dict[str, Any]) -> None:
    rows = [{**document["baseline"], "name": "O3"}]
    comparison = comparison_of(document, baseline="O3", rows=rows)
    audit = audit_of({"name": "IR", "ok": True, "detail": "equal"})

    assert "latency ms" in repr(comparison) and "samples" not in repr(comparison)
    assert "signed off" in repr(audit)
    assert comparison["rows"] == rows and json.loads(json.dumps(audit))["signed_off"]


def test_notebooks_show_every_result_in_one_style(analysis: Analysis, document: dict[str, Any]) -> None:
    rows = [{**document["baseline"], "name": "<O3>"}]
    checks = [{"name": "IR", "ok": False, "detail": "<differs>"}]
    results: dict[str, Any] = {
        "resnet18 compiles": TuneResult(document, Path("run")),
        "900 operators, class none": analysis,
        "resnet18: noise floor 1 %": comparison_of(document, baseline="<O3>", rows=rows),
        "refused: IR": audit_of(*checks),
        "FuseOps": catalog_entry("FuseOps"),
        "2 of 7 passes are worth something": Ablation(json.loads(ABLATION.read_text())),
    }
    for headline, result in results.items():
        html = result._repr_html_()
        assert html.startswith('<div class="passsearch"><style>') and html.endswith("</div>")
        assert headline in html and "<O3>" not in html and "<differs>" not in html


def test_the_names_of_a_comparison_are_shown_whole(document: dict[str, Any]) -> None:
    name = "a-pipeline-with-a-long-name"
    rows = [{**document["baseline"], "name": "O3"}, {**document["best"], "name": name, "ratio": {"ratio": 1.1}}]
    html = comparison_of(document, baseline="O3", rows=rows)._repr_html_()
    place = re.search(rf'<text x="(\d+)" y="\d+" text-anchor="end">{name}', html)

    assert place and int(place[1]) > 6 * len(name), "the label ends so far to the right that it begins in the picture"


def test_a_catalog_entry_prints_and_is_json() -> None:
    entry = catalog_entry("FuseOps")

    assert repr(entry).startswith("name: FuseOps") and json.loads(json.dumps(entry))["parameters"]
