"""The winner of a search beside the user's other engines: the first line, the lines below it, and runs side by side."""

from pathlib import Path
from typing import Any

import pytest

from passsearch.report import RunRecord, headline_text, report_page, result_html, result_text, runs_side_by_side_text
from passsearch.results import RunResult

read = RunResult.from_json

GAIN = "resnet18 runs 1.500 [1.400, 1.600] times faster than O3."


@pytest.fixture
def improved(result: dict[str, Any]) -> dict[str, Any]:
    """A result that is confirmed to run 1.5 times faster than the baseline, and faster than ONNX Runtime."""
    result["verdict"] |= {"improved": True, "ratio": 1.5, "interval": [1.4, 1.6]}
    result["ratios"] |= {"compile_time": None}
    return result


def beside(result: dict[str, Any], fastest: list[float], medians: list[float] | None = None) -> dict[str, Any]:
    """Return ONNX Runtime's row with other ratios, each a value with the ends of its interval."""
    row: dict[str, Any] = result["rivals"]["engines"]["onnxruntime"]
    ratios = [{"ratio": value, "interval": ends} for value, *ends in (fastest, medians or fastest)]
    return {**row, "ratio": ratios[0], "ratio_of_medians": ratios[1]}


def test_other_engines_come_before_the_compilers_own_baseline(improved: dict[str, Any]) -> None:
    expected = f"resnet18 has 1.250 [1.200, 1.300] times the throughput of ONNX Runtime. {GAIN}"
    assert headline_text(read(improved)) == expected
    assert expected in result_html(read(improved)) and expected in report_page([RunRecord(read(improved))])


def test_an_engine_that_is_ahead_is_said_first(improved: dict[str, Any]) -> None:
    improved["rivals"]["engines"]["torch"] = beside(improved, [0.8, 0.75, 0.85])
    assert headline_text(read(improved)) == (
        "PyTorch (eager) is faster: resnet18 has 0.800 [0.750, 0.850] times the throughput of PyTorch (eager) and "
        f"1.250 [1.200, 1.300] times the throughput of ONNX Runtime. {GAIN}"
    )


def test_medians_that_say_something_else_stand_beside_the_fastest_runs(improved: dict[str, Any]) -> None:
    improved["rivals"]["engines"]["onnxruntime"] = beside(improved, [1.05, 1.02, 1.08], [0.9, 0.85, 0.95])
    headline = headline_text(read(improved))
    ratios = "1.050 [1.020, 1.080] times the throughput of ONNX Runtime (0.900 [0.850, 0.950] by medians; undecided, "
    assert headline.startswith(f"resnet18 has {ratios}")


@pytest.mark.parametrize(
    ("fastest", "medians", "doubt"),
    [
        ([1.05, 0.98, 1.12], [1.04, 0.97, 1.11], "undecided"),
        ([1.05, 0.98, 1.12], [1.04, 1.01, 1.07], "1.040 [1.010, 1.070] by medians"),
        (
            [1.01, 0.98, 1.04],
            [0.99, 0.96, 1.02],
            "0.990 [0.960, 1.020] by medians; undecided, because the two disagree on which is faster",
        ),
    ],
    ids=["neither interval", "one interval", "disagreement"],
)
def test_the_first_sentence_says_what_is_undecided(
    improved: dict[str, Any], fastest: list[float], medians: list[float], doubt: str
) -> None:
    improved["rivals"]["engines"]["onnxruntime"] = beside(improved, fastest, medians)
    assert f"times the throughput of ONNX Runtime ({doubt}). " in headline_text(read(improved))


def test_a_ratio_of_one_process_is_called_so_in_the_first_sentence(improved: dict[str, Any]) -> None:
    improved["rivals"] |= {"processes": 1}
    assert "times the throughput of ONNX Runtime (one process). " in headline_text(read(improved))


@pytest.mark.parametrize(
    ("rivals", "reason"),
    [
        ({"engines": {}, "reason": "no time was left to measure ONNX Runtime beside it"}, "no time was left"),
        ({"engines": {"torch": {"failure": "it crashed"}}, "reason": ""}, "it crashed"),
        (None, "the run is of an earlier version"),
    ],
    ids=["no time", "failed", "earlier version"],
)
def test_a_ratio_to_the_compilers_baseline_never_stands_alone_on_a_cpu(
    improved: dict[str, Any], rivals: dict[str, Any] | None, reason: str
) -> None:
    improved |= {"rivals": rivals}
    if rivals is None:
        del improved["rivals"]
    assert headline_text(read(improved)).startswith(f"{GAIN} No other engine was measured: {reason}")
    assert headline_text(read({**improved, "target": "cuda -arch=sm_90"})) == GAIN


def test_an_interrupted_search_says_nothing_of_other_engines(improved: dict[str, Any]) -> None:
    del improved["rivals"]
    assert headline_text(read({**improved, "interrupted": True})).endswith("so no gain is confirmed.")


def test_every_view_has_both_ratios_both_latencies_and_what_failed(improved: dict[str, Any]) -> None:
    ratios = "1.250 [1.200, 1.300] times the throughput of ONNX Runtime by the fastest runs, 1.220 [1.150, 1.300] by"
    for view in (result_text(read(improved), width=400), result_html(read(improved)), report_page([_record(improved)])):
        text = " ".join(view.split())
        assert ratios in text and "(29.1 ms beside 35.5 ms)" in text and "beside ONNX Runtime 1.23.2" in text
        assert "not compared with OpenVINO" in text and "outputs deviate by 0.1 of the largest" in text
        assert "during the comparison" not in text


def test_what_makes_the_comparison_weak_is_a_warning(improved: dict[str, Any]) -> None:
    improved["rivals"] |= {"processes": 1, "others_percent": 40.0}
    text = " ".join(result_text(read(improved), width=400).split())
    assert "one process beside the other engines has no interval" in text
    assert "other processes took 40 % of the cores' time during the comparison" in text


def test_runs_side_by_side_have_the_engine_that_is_hardest_to_beat(improved: dict[str, Any]) -> None:
    row = beside(improved, [0.8, 0.7, 0.9], [0.7, 0.6, 0.8])
    slower = {**improved, "rivals": {**improved["rivals"], "engines": {"torch": row}}}
    without = {**improved, "rivals": {"engines": {}, "reason": "none was asked for"}}
    lines = runs_side_by_side_text([_record(each) for each in (improved, slower, without)], width=250).splitlines()
    assert "ONNX Runtime 1.220 [1.150, 1.300]" in lines[2]
    assert "PyTorch (eager) 0.700 [0.600, 0.800]" in lines[3]
    assert "Runtime" not in lines[4] and "PyTorch" not in lines[4]


def _record(result: dict[str, Any]) -> RunRecord:
    return RunRecord(read(result), folder=Path("runs") / "one")
