"""HTML of results."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from passsearch.report import RunRecord, report_page, result_html
from passsearch.report.charts import BEST
from passsearch.results import RunResult

read = RunResult.from_json

VOID_TAGS = {"meta", "br", "img"}


class TagChecker(HTMLParser):
    """Collects tags that are not closed, and attributes that would load a file."""

    def __init__(self) -> None:
        super().__init__()
        self.unclosed: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID_TAGS:
            self.unclosed.append(tag)
        self.loads += [f"{tag} {key}" for key, _ in attrs if key in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag


def test_page_is_complete_and_loads_no_other_file(result: dict[str, Any]) -> None:
    checker = TagChecker()
    checker.feed(report_page([RunRecord(read(result))]))

    assert checker.unclosed == []
    assert checker.loads == []
    assert "<script" not in report_page([RunRecord(read(result))])


def test_fragment_has_verdict_rows_and_plot(result: dict[str, Any]) -> None:
    html = result_html(read(result))

    assert "no significant improvement in throughput: 1.004 [0.996, 1.012]" in html
    assert len(re.findall(r"<tr", html)) == 2 + 6, "two tables"
    assert len(re.findall(r"<circle", html)) == 6
    assert "<html" not in html


@pytest.mark.parametrize(("objective", "is_green"), [("throughput", True), ("compile_time", False)])
def test_only_a_gain_in_speed_makes_the_winner_green(result: dict[str, Any], objective: str, is_green: bool) -> None:
    result["verdict"] |= {"improved": True, "objective": objective}
    assert (BEST in result_html(read(result)).split("<svg")[1]) is is_green


def test_what_was_measured_apart_is_drawn_apart(result: dict[str, Any]) -> None:
    html = result_html(read(result))
    confirmed, levels = html.split("<svg")[1:]
    assert [part.count("<circle") for part in (confirmed, levels)] == [2, 4]
    assert html.index("other levels") < html.index("<svg", html.index("<svg") + 1)


def test_names_are_escaped(result: dict[str, Any]) -> None:
    result["model"]["name"] = "<script>alert(1)</script>"
    result["baselines"][0]["name"] = "<b>&"

    html = report_page([RunRecord(read(result))])

    assert "<script>" not in html
    assert "<b>" not in html


def test_a_document_of_nulls_is_shown(result: dict[str, Any]) -> None:
    result["best"] |= {"latency_s": None, "compile_s": None}
    result["ratios"] = {"throughput": {"ratio": None, "interval": None}, "compile_time": None, "twin": None}

    checker = TagChecker()
    checker.feed(result_html(read(result)))

    assert checker.unclosed == []


def test_an_interval_without_ends_is_drawn_as_a_point(result: dict[str, Any]) -> None:
    lines = result_html(read(result)).count("<path")
    result["ratios"]["throughput"]["interval"] = [None, None]

    assert result_html(read(result)).count("<path") == lines - 2, "neither the line nor its ends"
    assert result_html(read(result)).count("<circle") == 6


def test_two_objectives_show_the_front(result: dict[str, Any]) -> None:
    result["pareto"].append({**result["best"], "pipeline": "FuseOps"})

    assert "no other candidate is better in every objective" in result_html(read(result))
