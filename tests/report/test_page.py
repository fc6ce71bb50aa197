"""The report as one page."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from passsearch.cli.app import application
from passsearch.report import RunRecord, read_run, report_page, runs_side_by_side_text
from passsearch.report.commands import tune_command
from passsearch.report.formatting import format_latency_ms
from passsearch.results import Ablation, RunResult, StatedRatio, winner_latency

read = RunResult.from_json


def test_the_page_of_a_run_has_every_part(run: Path, ablation: dict[str, Any]) -> None:
    page = report_page([replace(read_run(run), ablation=Ablation.from_json(ablation))])

    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == [
        "Measurements",
        "The winner",
        "What every pass is worth",
        "Kernels side by side",
        "History of the search",
        "What was explored",
        "Failures",
        "Provenance",
        "Make it again",
    ]
    assert "prefers-color-scheme: dark" in page and "max-width: 600px" in page
    assert len(page) < 200_000


def test_the_page_needs_no_network_and_runs_nothing(run: Path) -> None:
    page = report_page([read_run(run)])

    assert not re.search(r"<script|<link|<img|<iframe|url\(|@import|\ssrc=|\shref=|\son\w+=", page)
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_winner_is_explained_pass_by_pass(run: Path, ablation: dict[str, Any]) -> None:
    ablation["rows"][2]["pass"] = "AlterOpLayout"
    page = report_page([replace(read_run(run), ablation=Ablation.from_json(ablation))])

    assert "Replaces operators that only matter in training" in page, "the text of the catalog"
    assert "gain: throughput 1.500 [1.400, 1.600]" in page
    assert "2 of 7 passes are worth something: LegalizeOps" in page, "the headline of the ablation"


@pytest.mark.parametrize("rest", [("FoldConstant", "FuseOps"), ("FuseOps", "FoldConstant")])
def test_a_pass_that_occurs_twice_has_its_worth_at_its_place(
    run: Path, ablation: dict[str, Any], rest: tuple[str, str]
) -> None:
    record = read_run(run)
    best = replace(record.result.best, pipeline="FoldConstant,FuseOps,FoldConstant")
    ablation["rows"][2]["pass"], ablation["rows"][3]["pass"] = rest
    record = replace(record, result=replace(record.result, best=best))
    dropped = Ablation.from_json({**ablation, "dropped": ["FoldConstant"]})
    page = report_page([replace(record, ablation=dropped)])
    section = page[page.index("The winner") :]

    texts = ["gain: throughput 1.500", "needed: without it"]
    texts.insert(2 if rest[0] == "FoldConstant" else 0, "not needed: the IR")
    places = [section.index(text) for text in texts]
    assert places == sorted(places)


def test_without_an_ablation_the_page_names_the_command(run: Path) -> None:
    assert f"passsearch ablate {run}" in report_page([read_run(run)])


def test_failures_and_reproducers_are_listed(run: Path) -> None:
    record = read_run(run)
    failure = {"kind": "wrong_result", "stage": "verify", "step": "", "reason": "deviates", "pipeline": "A,B"}
    reproducer = {"passes": ["A"], "folder": "reproducers/A", "reason": "deviates by 3"}
    changes = {"failed": [failure], "failures": {"wrong_result": 1}, "reproducers": [reproducer]}
    page = report_page([RunRecord(read({**record.result.to_json(), **changes}))])

    assert "<summary>1 failed candidate</summary>" in page
    assert "A in reproducers/A: deviates by 3" in page


def test_names_from_anywhere_are_escaped(run: Path, ablation: dict[str, Any]) -> None:
    mark = "<script>alert(1)</script>\x1b[31m"
    record = read_run(run)
    document = record.result.to_json()
    for key in ("name", "source", "sha256"):
        document["model"][key] = mark
    document["best"]["pipeline"] = document["trials"][1]["pipeline"] = "A"
    document["trials"][1]["name"] = mark
    document["toolchain"] |= {"name": mark, "dialect": mark}
    document["failed"] = [dict.fromkeys(("kind", "stage", "step", "reason", "pipeline"), mark)]
    failure = dict.fromkeys(("kind", "stage", "reason"), mark)
    rows = [{**ablation["rows"][0], "name": mark, "pass": mark, "same_binary_as": mark, "failure": failure}]
    evil = RunRecord(
        read(document),
        Path(mark),
        settings={"seed": mark, "inputs": {mark: [[1], mark]}},
        edges=(*record.edges, type(record.edges[0])("a", mark, mark)),
        root="a",
        kernels={"old": {mark: 1.0}, "new": {mark: 2.0}},
        ablation=Ablation.from_json({**ablation, "rows": rows, "headline": mark, "dropped": [mark], "baseline": mark}),
    )
    page = report_page([evil, evil])

    assert "<script" not in page and "\x1b" not in page


def test_several_runs_stand_side_by_side(run: Path) -> None:
    page = report_page([read_run(run), read_run(run)])

    assert "<h1>2 runs side by side</h1>" in page
    assert page.count("<details><summary>resnet") == 2
    assert page.count("<h2>Make it again</h2>") == 2


def test_a_latency_that_contradicts_its_ratio_is_shown_nowhere(run: Path) -> None:
    record = read_run(run)
    [_, trial] = record.result.trials
    assert trial.latency_s and trial.latency_s.median
    latency = format_latency_ms(trial.latency_s)
    assert latency not in report_page([record]).partition("All 2 candidates")[2], "the list of all candidates"

    ratios = {**(record.result.ratios or {}), "throughput": StatedRatio(3.0)}
    record = replace(record, result=replace(record.result, ratios=ratios))
    assert winner_latency(record.result) is None
    for text in (report_page([record, record]), runs_side_by_side_text([record, record], width=132)):
        table = text.partition("<details>")[0].partition("Evidence")[0]
        assert latency not in table and "another load than for the baseline" in table


def test_a_run_that_is_named_like_its_network_is_named_once(run: Path) -> None:
    record = read_run(run)
    text = runs_side_by_side_text([record, replace(record, folder=Path("resnet18"))], width=132)
    assert "\nrun: resnet18 has" in text and "\nresnet18 has" in text


def test_the_command_of_a_run_is_accepted_by_the_command_line(run: Path) -> None:
    import typer

    settings = {**read_run(run).settings, "inputs": {"ids": [[1, 128], "int64"]}, "objectives": ["latency", "memory"]}
    settings |= {"passes": ["FuseOps", "FoldConstant"], "keep_throughput": 0.5, "target": "llvm -mcpu=x"}
    settings |= {"catalogs": "0123"}
    document = read_run(run).result.to_json()
    zoo = {**document["model"], "source": "zoo:resnet18", "batch": 8}
    text = tune_command(RunRecord(read({**document, "model": zoo}), settings=settings))
    _, name, *words = shlex.split(text)

    command = typer.main.get_command(application()).commands[name]  # type: ignore[attr-defined]
    parameters = command.make_context(name, list(words)).params
    assert parameters["model"] == "zoo:resnet18@8" and parameters["catalogs"] == [Path("FILE")]
    assert parameters["target"] == "llvm -mcpu=x" and parameters["passes"] == "FuseOps,FoldConstant"
    assert parameters["inputs"] == ["ids:int64[1,128]"] and parameters["timeout"] == 60
    assert (parameters["seed"], parameters["trials"], parameters["keep_throughput"]) == (7, 20, 0.5)
