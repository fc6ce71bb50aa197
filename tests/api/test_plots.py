"""Plots and data frames of results. Each test says which optional package it needs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from passsearch.api import TuneResult
from passsearch.errors import UserError

DATA = Path(__file__).parents[1] / "report" / "data" / "result.json"

ABLATION = Path(__file__).parents[1] / "data" / "ablations" / "resnet_tiny-relax.json"


@pytest.fixture
def result(tmp_path: Path) -> TuneResult:
    """A finished run of two candidates and a failed one, without a log."""
    document: dict[str, Any] = json.loads(DATA.read_text())
    document["trials"] = [{**document["baseline"], "ratio": {"ratio": 1.0}}, {**document["best"], "name": "<b>fast"}]
    document["failed"] = [{"kind": "crash", "stage": "build", "step": "", "reason": "signal 11", "pipeline": "A"}]
    (tmp_path / "result.json").write_text(json.dumps(document))
    return TuneResult.read(tmp_path)


def test_plots_are_plotly_figures(result: TuneResult) -> None:
    go = pytest.importorskip("plotly.graph_objects")
    recorded = json.loads(ABLATION.read_text())
    recorded["winner"] = {key: result.document["best"][key] for key in ("pipeline", "build")}
    row = next(row for row in recorded["rows"] if row["kind"] == "ladder")
    row |= {"pass": 'A{k="v"}', "throughput": {"ratio": 2.0, "interval": [1.5, 3.0]}}
    recorded["rows"] = [row]
    (result.run / "ablation.json").write_text(json.dumps(recorded))
    figures = [result.plot.history(), result.plot.pareto(), result.plot.space(), result.plot.ablation()]

    assert all(isinstance(figure, go.Figure) for figure in figures)
    history, ablation = figures[0].to_json(), figures[3]
    assert "&lt;b&gt;fast" in history and "<b>" not in history
    assert ablation._repr_html_ is None, "plotly's own loads a script from the network"
    drawing = ablation._repr_mimebundle_()["image/svg+xml"]
    assert drawing.startswith("<svg") and "A{k=&quot;v&quot;}" in drawing, "for viewers that run no script"
    assert ablation.layout.yaxis.ticktext == ('A{k="v"}',)
    assert ablation.data[0].error_x.array == (1.0,) and ablation.data[0].error_x.arrayminus == (0.5,)


def test_what_a_run_lacks_is_a_line(result: TuneResult) -> None:
    with pytest.raises(UserError, match="passsearch ablate"):
        result.plot.ablation()
    with pytest.raises(UserError, match="no times of kernels"):
        result.plot.kernels()


def test_a_frame_has_a_row_per_candidate(result: TuneResult) -> None:
    pytest.importorskip("pandas")
    frame = result.to_frame()

    assert len(frame) == 3 and list(frame.is_best) == [False, True, False]
    assert list(frame.failure.fillna("")) == ["", "", "crash"]
    assert frame.latency_s[1] == result.best.measurement["latency_s"]["median"]


@pytest.mark.parametrize(("package", "call"), [("plotly", "plot.history"), ("pandas", "to_frame")])
def test_a_missing_package_is_one_line_with_the_command(result: TuneResult, package: str, call: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from passsearch import TuneResult\n"
        "from passsearch.errors import UserError\n"
        f"try: TuneResult.read({str(result.run)!r}).{call}()\n"
        "except UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"{package}, which is not installed; run: pip install -e '.[notebook]'" in done.stdout
