"""Comparisons as text and as HTML."""

from html import unescape
from typing import Any

import pytest

from passsearch.report import comparison_html, comparison_text
from passsearch.results import Comparison

read = Comparison.from_json

COMPILER = {"name": "mine", "dialect": "relay", "tvm_version": "0.16"}

DEVIATION = {
    "kind": "wrong_result",
    "stage": "measure",
    "step": "",
    "reason": "outputs deviate by 0.12 of the largest",
}


def comparison(result: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a comparison by six processes with warm caches, or by what the keys say."""
    measured = {"protocol": "paired", "cache": "warm", "processes": 6, "noise_floor": 0.004, "level": 0.95}
    measured |= {"rows": [], "pairs": []}
    return {**result, "baseline": "O3", **measured, **keys}


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (
            {},
            (
                "protocol: paired (pipelines take turns in 6 processes, warm caches); every ratio is of one compile "
                "per pipeline, by the fastest runs, mean over processes",
                "noise floor: 0.4 %",
            ),
        ),
        (
            {"cache": "flushed", "toolchains": [COMPILER, COMPILER]},
            ("pipelines take turns in 6 processes of each toolchain, flushed caches);",),
        ),
        (
            {"protocol": "cf22", "runs": 1000, "processes": 1, "noise_floor": None},
            (
                "protocol: cf22 (1000 runs in a row of each pipeline, in 1 process, warm caches); every ratio is of "
                "one compile per pipeline, by the mean of the runs within three standard deviations",
                "noise floor: none, and no verdicts: runs in a row share every drift of the machine, so a ratio has no "
                "interval",
            ),
        ),
        (
            {"processes": 1, "noise_floor": None},
            (
                "paired (pipelines take turns in 1 process, warm caches); every ratio is of one compile per pipeline, "
                "by the fastest runs",
                "noise floor: none, so no difference is significant: one process has no interval (give --processes 2 "
                "or more)",
            ),
        ),
    ],
    ids=["paired", "cold caches of two toolchains", "the paper's protocol", "one process"],
)
def test_text_and_html_say_how_a_comparison_was_measured(
    result: dict[str, Any], keys: dict[str, Any], lines: tuple[str, ...]
) -> None:
    document = comparison(result, **keys)
    for form in (comparison_text(read(document), width=100), unescape(comparison_html(read(document)))):
        shown = " ".join(form.split())
        assert [line for line in lines if line not in shown] == []
        assert ("mean over processes" in shown) == (document["protocol"] == "paired" and document["processes"] > 1)


def test_a_comparison_shows_a_verdict_per_pair(result: dict[str, Any]) -> None:
    pair = {"first": "O3", "second": "AS-0", "rows": [0, 1], "level": 0.95, "ratio": 1.25, "interval": [1.2, 1.3]}
    pair["verdict"] = "faster"
    text = comparison_text(read(comparison(result, pairs=[pair])), width=120)
    assert "AS-0 / O3" in text and "1.250 [1.200, 1.300]" in text and "faster" in text


def test_a_comparison_shows_measurements_and_failures(result: dict[str, Any]) -> None:
    failed = {"name": "PO-2", "pipeline": "ToMixedPrecision", "build": {"opt_level": 0}, "failure": DEVIATION}
    rows = [*result["baselines"][2:4], {**result["best"], "name": "layout-fuse"}, failed]
    text = comparison_text(read(comparison(result, rows=rows)), width=120)
    table = {line.split()[0]: line.split() for line in text.splitlines() if line}

    assert table["layout-fuse"][-4:] == ["7.38", "2.93", "46.9", "2"]
    assert table["O2"][-4:] == ["13.9", "1.554", "46.9", "2"]
    assert "PO-2: failed: wrong_result in measure: outputs deviate by 0.12 of the largest" in text
    assert "noise floor: 0.4 %" in text


def test_a_comparison_shows_both_estimators_of_a_row_where_they_contradict_each_other(result: dict[str, Any]) -> None:
    row = {**result["best"], "name": "layout-fuse", "ratio": {"ratio": 1.1, "interval": [1.08, 1.12]}}
    document = comparison(result, rows=[row])
    row["ratio_of_medians"] = {"ratio": 1.1, "interval": [1.07, 1.13]}
    assert "estimators" not in comparison_text(read(document), width=120)
    row["ratio_of_medians"] = {"ratio": 0.9, "interval": [0.88, 0.92]}
    expected = (
        "estimators of layout-fuse: throughput by fastest runs 1.100 [1.080, 1.120], by medians 0.900 [0.880, 0.920]"
    )
    assert expected in comparison_text(read(document), width=160) and expected in comparison_html(read(document))
