"""A profile as text and as charts."""

from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.report import chart_svg, profile_chart, profile_html, profile_text
from passsearch.results import Profile

read = Profile.from_json


def _pipeline(name: str, factor: float) -> dict[str, Any]:
    product = {
        "kernel": "fused_matmul",
        "calls": 2,
        "weighted_calls": 2,
        "seconds": 0.002 * factor,
        "flops": 1e7,
        "bytes": 1e5,
    }
    copy = {
        "kernel": "transpose",
        "calls": 1,
        "weighted_calls": 1,
        "seconds": 0.001 * factor,
        "flops": 0.0,
        "bytes": 1e6,
    }
    return {
        "name": name,
        "pipeline": "",
        "binary": "",
        "whole_s": 0.0032 * factor,
        "whole_s_by_process": [0.0032 * factor],
        "observer_s": 0.0,
        "is_alone": False,
        "calls": [],
        "kernels_s": 0.003 * factor,
        "kernels_share": 0.9375,
        "rest": {"runtime": 0.0001 * factor, "between calls": 0.0001 * factor},
        "kernels": [
            {**product, "weighted_calls": 2, "bound": "arithmetic", "roof_share": 0.1 / factor, "code_bytes": 2500},
            {**copy, "weighted_calls": 1, "bound": "memory", "roof_share": 0.4, "code_bytes": None},
        ],
        "blocks": [
            {"part": "block 1", "calls": 1, "seconds": 0.001 * factor},
            {"part": "block 2", "calls": 2, "seconds": 0.002 * factor},
        ],
    }


DOCUMENT: dict[str, Any] = {
    "schema": "passsearch/1",
    "model": {"name": "net", "source": "net.onnx", "sha256": "0", "batch": 1},
    "target": "llvm",
    "toolchain": {"name": "mine", "dialect": "relay", "tvm_version": "0.16"},
    "unavailable": {},
    "device": {"name": "CPU"},
    "threads": 2,
    "measured_at": "2026-11-24T18:35:00Z",
    "peaks": {"threads": 2, "flops": 1e11, "bytes_per_s": 1e10},
    "peaks_reason": "",
    "pipelines": [_pipeline("default", 1.0), _pipeline("best", 0.25)],
}


def _row(text: str, begin: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(begin)).split()


def test_blocks_stand_side_by_side_and_kernels_below_their_pipeline() -> None:
    text = profile_text(read(DOCUMENT), width=132)
    assert _row(text, "block 1") == ["block", "1", "1.00", "0.250", "4.00"]
    assert "default: 3.20 ms an inference; 3 calls of 2 kernels take 3.00 ms, 93.8 %" in text
    kernel = _row(text, "fused_matmul")
    assert kernel == ["fused_matmul", "2", "2.00", "62.5", "%", "10.0", "0.100", "10", "%", "neither", "2.50"]
    assert _row(text, "transpose")[-2:] == ["memory", "–"]


def test_calls_that_sum_to_more_than_an_inference_are_explained() -> None:
    short = {**_pipeline("default", 1.0), "rest": {"runtime": 0.0005, "between calls": -0.0003}}
    text = " ".join(profile_text(read({**DOCUMENT, "pipelines": [short]}), width=132).split())
    assert "between calls -0.300 ms; watching the calls slows them" in text
    assert "watching" not in profile_text(read(DOCUMENT), width=132)


def test_speeds_of_several_cases_count_calls_by_weight() -> None:
    calls: dict[str, Any] = {"function": "", "entry": "main", "inputs": {}}
    cases = [{"name": "prefill", "weight": 0.3, **calls}, {"name": "decode", "weight": 0.7, **calls}]
    pipeline = _pipeline("default", 0.5)
    rows = [{**row, "weighted_calls": row["weighted_calls"] / 2} for row in pipeline["kernels"]]
    model = {**DOCUMENT["model"], "cases": cases}
    weighted = {**DOCUMENT, "model": model, "pipelines": [{**pipeline, "kernels": rows}]}
    text = profile_text(read(weighted), width=132)
    # Half the time for half a call each on average.
    assert _row(text, "fused_matmul")[:7] == ["fused_matmul", "2", "1.00", "62.5", "%", "10.0", "0.100"]
    assert "times are means by weight: prefill 0.300, decode 0.700" in text
    assert profile_chart(read(weighted), "roofline").series[1].points[0].y == pytest.approx(10)


def test_the_roofline_has_the_roof_and_the_kernels_that_compute() -> None:
    chart = profile_chart(read(DOCUMENT), "roofline")
    roof, first, second = chart.series
    assert max(point.y for point in roof.points) == 100
    assert [point.y for point in (*first.points, *second.points)] == [pytest.approx(10), pytest.approx(40)]
    assert "fused_matmul: 2.00 ms, 10 % of the roof" in chart_svg(chart)


def test_bars_of_blocks_and_what_has_no_chart() -> None:
    chart = profile_chart(read(DOCUMENT), "blocks")
    assert [point.x for point in chart.series[1].points] == [pytest.approx(0.25), pytest.approx(0.5)]
    hidden = [{**pipeline, "blocks": None} for pipeline in DOCUMENT["pipelines"]]
    with pytest.raises(UserError, match="no blocks"):
        profile_chart(read({**DOCUMENT, "pipelines": hidden}), "blocks")
    with pytest.raises(UserError, match="no roofline: no C compiler"):
        profile_chart(read({**DOCUMENT, "peaks": None, "peaks_reason": "no C compiler"}), "roofline")
    with pytest.raises(UserError, match="choose from: roofline, blocks"):
        profile_chart(read(DOCUMENT), "pie")
    assert "blocks: not shown for default, best" in profile_text(read({**DOCUMENT, "pipelines": hidden}), width=132)


def test_a_notebook_shows_a_profile_of_a_compiler_that_hides_the_costs_of_kernels() -> None:
    assert profile_html(read(DOCUMENT)).count("<svg") == 2
    unknown = {"flops": None, "bytes": None, "code_bytes": None, "bound": None, "roof_share": None}
    rows = [{**row, **unknown} for row in DOCUMENT["pipelines"][0]["kernels"]]
    hidden = {**DOCUMENT, "pipelines": [{**DOCUMENT["pipelines"][0], "kernels": rows}]}
    assert profile_html(read(hidden)).count("<svg") == 1
    with pytest.raises(UserError, match="does not show what its kernels have to do"):
        profile_chart(read(hidden), "roofline")


def test_a_kernel_that_is_too_short_to_be_timed_has_no_speed() -> None:
    pipeline = DOCUMENT["pipelines"][0]
    short = {**pipeline["kernels"][0], "seconds": 0.0, "bound": None, "roof_share": None}
    document = {**DOCUMENT, "pipelines": [{**pipeline, "kernels": [short]}]}
    assert short["kernel"] in profile_text(read(document), width=132)
