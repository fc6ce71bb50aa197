"""Charts of runs: their data, and their drawings as SVG."""

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.report import RunRecord, history_chart, kernels_chart, pareto_chart, read_run, space_chart
from passsearch.report.charts import Chart, ablation_chart, chart_html, chart_svg, ratio_chart, ratios_chart
from passsearch.report.charts.chart import BEST, OTHER, Axis, Point, Series
from passsearch.results import Ablation, RunResult, StatedRatio

read = RunResult.from_json


def series(chart: Chart, name: str) -> tuple[Point, ...]:
    """Return the points of one series."""
    return next(each.points for each in chart.series if each.name == name)


def test_the_history_shows_when_each_candidate_was_built(run: Path) -> None:
    chart = history_chart(read_run(run))
    first, second = series(chart, "candidate")

    assert (first.y, second.y) == (1.0, 2.0) and 0 <= first.x <= second.x
    assert [point.y for point in series(chart, "best until then")] == [1.0, 2.0, 2.0]
    assert chart.x.title == "seconds since the start of the run"


def test_the_history_without_a_log_has_the_candidates_in_order(run: Path) -> None:
    (run / "log.jsonl").unlink()
    chart = history_chart(read_run(run))

    assert [point.x for point in series(chart, "candidate")] == [1.0, 2.0]
    assert chart.x.title == "candidates in order"


def test_the_gain_is_of_the_runs_objective(result: dict[str, Any]) -> None:
    result["verdict"]["objective"] = "compile_time"
    baseline = {**result["baseline"], "compile_s": 8.0}
    result["trials"] = [baseline, {**result["best"], "compile_s": 2.0}]
    result["baselines"] = [baseline]

    assert [point.y for point in series(history_chart(RunRecord(read(result))), "candidate")] == [1.0, 4.0]


def test_the_front_has_no_point_that_another_one_beats(result: dict[str, Any]) -> None:
    def trial(name: str, compile_s: float, per_s: float) -> dict[str, Any]:
        return {**result["best"], "pipeline": name, "name": "", "compile_s": compile_s, "throughput_per_s": per_s}

    rows = [trial("A", 1.0, 10.0), trial("B", 2.0, 9.0), trial("C", 3.0, 30.0), trial("D", 3.0, 20.0)]
    result |= {"trials": rows, "baselines": [], "best": rows[2]}
    chart = pareto_chart(RunRecord(read(result)))

    assert [(point.x, point.y) for point in series(chart, "front")] == [(1.0, 10.0), (3.0, 30.0)]
    assert [point.y for point in series(chart, "best")] == [30.0]


def test_the_state_graph_has_the_way_to_the_winner(run: Path) -> None:
    chart = space_chart(read_run(run))

    edges, way = (each.points for each in chart.series if each.kind == "segments")
    assert chart.title == "State graph: 4 states and 3 edges between them"
    assert [point.x for point in way] == [0.0, 1.0, 1.0, 2.0] and len(edges) == 6
    assert [point.x for point in series(chart, "the network")] == [0.0]
    assert [point.x for point in series(chart, "best")] == [2.0]
    assert "AlterOpLayout" in series(chart, "best")[0].text


def test_kernels_of_baseline_and_winner_stand_side_by_side(run: Path) -> None:
    chart = kernels_chart(read_run(run))

    assert chart.y.labels == ("conv", "<pool>", "fused_conv")
    assert [each.name for each in chart.series] == ["O3: 3.00 ms", "best: 1.00 ms"]
    assert [(point.x, point.y) for point in chart.series[1].points] == [(1.0, 2)]


def test_missing_kernels_are_a_line(result: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="no times of kernels"):
        kernels_chart(RunRecord(read(result)))


def test_an_ablation_has_both_orders(result: dict[str, Any], ablation: dict[str, Any]) -> None:
    record = RunRecord(read(result), ablation=Ablation.from_json(ablation))
    ladder, without = (ablation_chart(record, kind=kind) for kind in ("ladder", "without"))

    assert ladder.y.labels == without.y.labels == ("SimplifyInference", "AlterOpLayout")
    assert [point.x for point in ladder.points] == [1.0, 2.0]
    assert [point.interval for point in without.points] == [(1.4, 1.6)], "a needed pass has no ratio"


def test_a_missing_ablation_names_the_command(run: Path) -> None:
    with pytest.raises(UserError, match=f"passsearch ablate {run}"):
        ablation_chart(read_run(run))
    with pytest.raises(UserError, match="choose from: throughput, compile_time"):
        ablation_chart(read_run(run), metric="energy")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"rows": 3}', '{"rows": [3, {"kind": "ladder"}]}'])
def test_a_damaged_ablation_is_no_error(run: Path, content: str) -> None:
    (run / "ablation.json").write_text(content)
    record = read_run(run)

    if record.ablation is not None:
        assert chart_svg(ablation_chart(record))


@pytest.mark.parametrize("content", ["", "no checksum\n", "\x00"])
def test_a_damaged_log_is_no_error(run: Path, content: str) -> None:
    (run / "log.jsonl").write_text(content)

    assert space_chart(read_run(run)).points == ()


def test_a_drawing_is_well_formed_and_escaped(run: Path) -> None:
    drawing = chart_html(kernels_chart(read_run(run)))
    parser = HTMLParser()
    parser.feed(drawing)

    assert "&lt;pool&gt;" in drawing and "<pool>" not in drawing
    assert drawing.count("<svg") == drawing.count("</svg>") == 2, "for wide and for narrow screens"


def test_an_interval_that_decides_nothing_leaves_room_for_the_others(result: dict[str, Any]) -> None:
    rows = [("wide", StatedRatio(1.0, (1e-20, 1e20))), ("narrow", StatedRatio(1.1, (1.0, 1.2)))]

    assert ratio_chart("", "", rows).points[0].interval == (0.01, 100.0)


@pytest.mark.parametrize("values", [[], [0.0], [1.0, 1.0], [1e-9, 1e9], [-1.0, 5.0]])
def test_any_values_are_drawn(values: list[float]) -> None:
    points = tuple(Point(value, value) for value in values)
    for is_log in (False, True):
        if is_log and (not values or min(values) <= 0):
            continue
        axis = Axis("value", is_log=is_log)
        assert "nan" not in chart_svg(Chart("", axis, axis, (Series("a", points), Series("b", points, "line"))))


def test_ratios_without_a_value_are_left_out(result: dict[str, Any]) -> None:
    result["ratios"] = {"throughput": None, "compile_time": {"ratio": None}, "twin": {"ratio": 1.0, "interval": None}}

    assert ratios_chart(read(result)).y.labels == ("one build to another",)
    assert ratios_chart(read({**result, "ratios": None})).y.labels == ()


@pytest.mark.parametrize(
    ("verdict", "colours"),
    [
        ({"confirmed": True, "improved": True}, [BEST, BEST, OTHER]),
        ({"confirmed": True, "improved": False}, [OTHER, BEST, OTHER]),
        ({"confirmed": True, "improved": False, "objective": "latency"}, [OTHER, BEST, OTHER]),
        ({"confirmed": False, "improved": False}, [OTHER, OTHER, OTHER]),
    ],
    ids=["a gain", "within the noise floor", "another speed", "not confirmed"],
)
def test_green_is_for_a_certain_gain(result: dict[str, Any], verdict: dict[str, bool], colours: list[str]) -> None:
    result["verdict"] |= {"objective": "throughput", **verdict}
    ratio = {"ratio": 1.01, "interval": [1.005, 1.015]}
    result["ratios"] = {"throughput": ratio, "compile_time": ratio, "twin": ratio}

    assert [each.colour for each in ratios_chart(read(result)).series] == colours
