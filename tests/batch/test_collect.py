"""One table of finished runs, and of comparisons across devices. The results are recorded."""

import csv
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from passsearch import cli
from passsearch.batch import collect, cross_jobs, cross_rows, job_states, read_jobs, tune_jobs
from passsearch.batch.job import Reporter
from passsearch.errors import EnvironmentFault
from passsearch.report import batch_results_text, cross_text
from passsearch.results import BatchResults
from passsearch.store import OtherSettings

RESULTS = Path(__file__).parents[1] / "data" / "results"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of one network and objective on two devices, both of which are finished, and on one that is not."""
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\noptions: {trials: 8}\n"
        "devices:\n  big: {toolchains: [relay]}\n  small: {toolchains: [relay]}\n  new: {}\n"
    )
    for job in tune_jobs(read_jobs(path))[:2]:
        job.folder.mkdir(parents=True)
        shutil.copy(RESULTS / "resnet_tiny-relay.json", job.folder / "result.json")
        (job.folder / "run.json").write_text(json.dumps({"trials": 8, "timeout_s": None}))
    return path


def _edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_row_has_what_the_run_found(file: Path) -> None:
    recorded = json.loads((RESULTS / "resnet_tiny-relay.json").read_text())
    jobs = tune_jobs(read_jobs(file))
    _edit(jobs[0].folder / "result.json", lambda result: result["verdict"].update(ratio=1.5, interval=[1.25, 1.75]))
    sequence = {**recorded["best"], "name": "AS-2", "of": 3, "is_best": False, "improved": True}
    sequence["gain"] = {"ratio": 1.2, "interval": [1.1, 1.3]}
    _edit(jobs[0].folder / "result.json", lambda result: result.update(sequence=sequence))
    numbers = {"median": 0.01, "interval": None}
    row = {"ratio": {"ratio": 0.8, "interval": [0.7, 0.9]}, "latency_s": numbers, "rival_latency_s": numbers}
    rivals = {"engines": {"onnxruntime": {**row, "ratio_of_medians": row["ratio"]}, "torch": {"failure": "it crashed"}}}
    _edit(jobs[0].folder / "result.json", lambda result: result.update(rivals=rivals))
    big, small, new = collect(jobs)
    assert [big.rival, big.rival_ratio, big.rival_low, big.rival_high] == ["onnxruntime", 0.8, 0.7, 0.9]
    assert small.rival is None and small.rival_ratio is None
    assert big.sequence == "AS-2" and [big.sequence_gain, big.sequence_gain_low] == [1.2, 1.1]
    assert small.sequence is None and small.sequence_gain is None, "which an earlier version made"
    text = batch_results_text(BatchResults(str(file), tuple(collect(jobs)), ()))
    assert "/ engine" in text and "0.800" in text
    assert "/ sequence" in text and all(number in text for number in ("1.200", "[1.100,", "1.300]"))
    assert big.finished and big.device == "big" and big.pipeline == recorded["best"]["pipeline"]
    assert [big.gain, big.gain_low, big.gain_high] == [1.5, 1.25, 1.75]
    assert big.baseline_latency_s == recorded["baseline"]["latency_s"]["median"]
    assert not new.finished and new.pipeline is None and [*new.to_json()] == [*big.to_json()]


def test_commands_show_all_rows_and_write_them(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = file.with_name("table.csv")
    assert cli.main(["batch", "collect", str(file), "--csv", str(table)]) == 0
    text = capsys.readouterr().out
    assert "no result yet" in text and "unfinished: 1 of 3" in text
    with table.open(newline="") as rows:
        assert [row["device"] for row in csv.DictReader(rows)] == ["big", "small", "new"]
    assert cli.main(["batch", "status", str(file)]) == 0
    assert "jobs: 3: 2 finished, 1 new" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["trials: 9, timeout: 30", "trials: 8, timeout: 60", "trials: 8", "timeout: 30"])
def test_larger_limits_make_a_finished_run_unfinished(file: Path, option: str) -> None:
    for run in file.parent.glob("runs/*/run.json"):
        run.write_text(json.dumps({"trials": 8, "timeout_s": 30}))
    text = file.read_text()
    file.write_text(text.replace("trials: 8", "trials: 8, timeout: 30"))
    assert [state.state for state in job_states(tune_jobs(read_jobs(file)))] == ["finished", "finished", "new"]
    file.write_text(text.replace("trials: 8", option))
    assert [state.state for state in job_states(tune_jobs(read_jobs(file)))] == ["new", "new", "new"]


def test_a_run_with_larger_limits_that_was_cut_off_is_still_unfinished(file: Path) -> None:
    [job, *_] = tune_jobs(read_jobs(file))
    _edit(job.folder / "result.json", lambda result: result.update(limits={"trials": 8, "timeout_s": None}))
    assert job.is_finished
    file.write_text(file.read_text().replace("trials: 8", "trials: 60"))
    # What a start with the larger limits writes first.
    _edit(job.folder / "run.json", lambda settings: settings.update(trials=60))
    [job, *_] = tune_jobs(read_jobs(file))
    assert not job.is_finished
    _edit(job.folder / "result.json", lambda result: result["limits"].update(trials=60))
    assert job.is_finished


def test_a_network_that_was_written_after_its_result_makes_the_run_unfinished(file: Path) -> None:
    [job, other, _] = tune_jobs(read_jobs(file))
    network = file.with_name("network.onnx")
    job = replace(job, network=replace(job.network, model=str(network)))
    network.write_bytes(b"old")
    os.utime(network, (0, 0))
    assert job.is_finished and not job.unfinished_reason
    later = (job.folder / "result.json").stat().st_mtime + 1
    os.utime(network, (later, later))
    assert not job.is_finished and "network" in job.unfinished_reason
    assert other.is_finished


def test_the_row_of_a_winner_has_the_options_of_its_build(file: Path) -> None:
    [job, *_] = tune_jobs(read_jobs(file))
    build = {"opt_level": 0, "required": [], "disabled": ["SimplifyExpr", "FoldConstant"], "config": {}}
    _edit(job.folder / "result.json", lambda result: result["best"].update(build=build))
    [row] = collect([job])
    assert (row.disabled, row.required, row.config) == ("SimplifyExpr,FoldConstant", "", "")
    text = batch_results_text(BatchResults(str(file), (row,), ()))
    assert "without SimplifyExpr, FoldConstant" in " ".join(text.split())


def test_a_comparison_has_a_day_unless_the_file_states_a_limit(file: Path) -> None:
    text = file.read_text().replace("trials: 8", "trials: 8, timeout: 60")
    file.write_text(text)
    for run in file.parent.glob("runs/*/run.json"):
        run.write_text(json.dumps({"trials": 8, "timeout_s": 60}))
    jobs = tune_jobs(read_jobs(file))
    assert {job.device.slurm["time"] for job in jobs} == {17}
    assert {job.device.slurm["time"] for job in cross_jobs(jobs)} == {24 * 60}
    file.write_text(text.replace("big: {", "big: {minutes: 30, ").replace("small: {", "small: {minutes: 30, "))
    assert {job.device.slurm["time"] for job in cross_jobs(tune_jobs(read_jobs(file)))} == {30}


def test_an_interrupted_run_is_no_result(file: Path) -> None:
    [job, other, _] = tune_jobs(read_jobs(file))
    _edit(job.folder / "result.json", lambda result: result.update(interrupted=True))
    assert not job.is_finished and other.is_finished
    assert [row.finished for row in collect([job, other])] == [False, True]


@pytest.mark.parametrize(
    ("accident", "reason"),
    [
        ({"verdict": {"failure": {"kind": "infra", "reason": "disk full"}}}, "ended its confirmation: disk full"),
        ({"failures": {"infra": 2, "oom": 1, "crash": 1}}, "accidents of the machine spoiled candidates: 3"),
        ({"deployment": None}, "its winner could not be written"),
    ],
)
def test_a_run_that_an_accident_left_incomplete_is_not_finished(
    file: Path, accident: dict[str, Any], reason: str
) -> None:
    [job, other, _] = tune_jobs(read_jobs(file))

    def spoil(result: dict[str, Any]) -> None:
        verdict = {**result["verdict"], **accident.get("verdict", {})}
        result.update({**accident, "verdict": verdict})

    _edit(job.folder / "result.json", spoil)
    assert not job.is_finished and reason in job.unfinished_reason
    assert other.is_finished and not other.unfinished_reason
    assert [row.finished for row in collect([job, other])] == [False, True]
    assert cross_jobs([job, other]) == []
    # What happens at a second start as well is the answer; a start that was cut off says nothing.
    states = []
    for complete in (False, True, True):
        with mock.patch.object(type(job), "run", return_value=complete):
            Reporter(job.records).watch(job)
        states.append(job.is_finished)
    assert states == [False, False, True]
    [state] = job_states([job])
    assert state.state == "finished" and reason in state.reason


def test_new_passes_beside_a_catalog_make_a_run_outdated(file: Path) -> None:
    (file.parent / "mine.yaml").touch()
    file.write_text(file.read_text().replace("trials: 8", "trials: 8, catalogs: [mine.yaml]"))
    [job, *_] = tune_jobs(read_jobs(file))
    job.folder.mkdir(parents=True)
    shutil.copyfile(RESULTS / "resnet_tiny-relay.json", job.folder / "result.json")
    assert job.is_finished
    later = time.time() + 100
    for name, is_outdated in (("deploy/build_model.py", False), ("mine.py", True)):
        (file.parent / name).parent.mkdir(exist_ok=True)
        (file.parent / name).touch()
        os.utime(file.parent / name, (later, later))
        assert job.is_finished is not is_outdated
    assert job.unfinished_reason == "finished before its network or its passes changed"


@pytest.mark.parametrize("kind", ["infra", "oom"])
def test_a_comparison_that_an_accident_spoiled_is_made_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    rows = [{"name": "winner", "failure": {"kind": kind, "reason": "disk full"}}]
    monkeypatch.setattr("passsearch.api.compare", lambda *_, **__: {"rows": rows})
    [comparison, _] = cross_jobs(tune_jobs(read_jobs(file)))
    with pytest.raises(EnvironmentFault, match="kept `winner` from being built: disk full"):
        comparison.run(lambda *_: None)
    assert not comparison.is_finished


def test_a_comparison_of_another_version_begins_anew(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [comparison, _] = cross_jobs(tune_jobs(read_jobs(file)))

    def compare(*_: object, folder: Path, **__: object) -> dict[str, Any]:
        if folder.exists():
            raise OtherSettings("made by another version")
        return {"rows": []}

    (comparison.folder / "measured").mkdir(parents=True)
    monkeypatch.setattr("passsearch.api.compare", compare)
    assert comparison.run(lambda *_: None) and comparison.is_finished
    assert not (comparison.folder / "measured").exists()


def test_each_device_compares_the_winners_of_all(file: Path) -> None:
    jobs = tune_jobs(read_jobs(file))
    comparisons = cross_jobs(jobs)
    winners = {"big": jobs[0].name, "small": jobs[1].name}
    assert [(job.device.name, job.winners, job.baseline) for job in comparisons] == [
        ("big", winners, "O3"),
        ("small", winners, "O3"),
    ]
    names = {job.name for job in comparisons}
    assert {job.name for job in cross_jobs(jobs)} == names
    _edit(jobs[1].folder / "result.json", lambda result: result["best"].update(pipeline="FuseOps"))
    # The new winner is measured everywhere.
    assert not names & {job.name for job in cross_jobs(jobs)}


def test_winners_of_two_dialects_are_not_compared(file: Path) -> None:
    jobs = tune_jobs(read_jobs(file))
    shutil.copy(RESULTS / "resnet_tiny-relax.json", jobs[1].folder / "result.json")
    assert cross_jobs(jobs) == []


def test_ratios_are_read_from_the_pair_whichever_comes_first(file: Path) -> None:
    [job, _] = cross_jobs(tune_jobs(read_jobs(file)))
    big, small = job.winners["big"], job.winners["small"]  # a row is named like the run folder
    pairs = [("O3", big, 1.25, "faster"), ("O3", small, 0.5, "slower"), (big, small, 0.4, "slower")]
    comparison = {
        "rows": [{"name": name, "pipeline": "FuseOps", "compile_s": 2.0} for name in ("O3", big, small)],
        "pairs": [
            {"first": a, "second": b, "ratio": ratio, "interval": [ratio / 2, ratio * 2], "verdict": verdict}
            for a, b, ratio, verdict in pairs
        ],
    }
    job.folder.mkdir(parents=True)
    (job.folder / "comparison.json").write_text(json.dumps(comparison))
    own, other = cross_rows([job])
    assert (own.found_on, own.measured_on, own.baseline_ratio) == ("big", "big", 1.25)
    assert (other.found_on, other.baseline_verdict) == ("small", "slower")
    assert [other.own_ratio, other.own_low, other.own_high] == [0.4, 0.2, 0.8]
    text = cross_text([replace(own, network="nets/a.onnx"), other])
    assert "a.onnx" in text and "nets" not in text
    assert [line.split()[-1] for line in text.splitlines()[2:4]] == ["helps", "harms"]
    assert cross_text([own]) in batch_results_text(BatchResults("jobs.yaml", (), (own,)))


def test_a_missing_submitit_is_named_in_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    file.write_text(file.read_text().replace("toolchains: [relay]", ""))
    assert cli.main(["batch", "submit", str(file), "--executor", "slurm"]) == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: Batch jobs need submitit; install it: pip install -e '.[batch]' in a checkout of passsearch"
    ]


def test_a_latency_that_contradicts_its_ratio_is_not_shown_and_a_reason_is(file: Path) -> None:
    [job, *_] = jobs = tune_jobs(read_jobs(file))

    def loaded(result: dict[str, Any]) -> None:
        result["verdict"].update(ratio=14.548, interval=None, confirmed=False, processes=None)
        result["verdict"].update(improved=False, reason="the time limit leaves no 30 s to confirm")
        result["best"]["latency_s"]["median"] = result["baseline"]["latency_s"]["median"] / 4
        result["best"]["ratio"] = {"ratio": 14.548, "interval": None}
        for name in result["ratios"]:
            result["ratios"][name] = {"ratio": 14.548, "interval": None}

    _edit(job.folder / "result.json", loaded)
    rows = collect(jobs)
    assert rows[0].best_latency_s is None and rows[1].best_latency_s is not None
    text = " ".join(batch_results_text(BatchResults(str(file), tuple(rows), ())).split())
    assert f"not confirmed {job.name}: the time limit leaves no 30 s to confirm" in text
    assert "→ –: timed while the machine had another load" in text


@pytest.mark.parametrize("columns", ["80", "120"])
def test_rows_can_be_told_apart_and_no_name_is_broken(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = file.read_text().replace("[zoo:resnet_tiny]", '["zoo:resnet_tiny", {model: "zoo:mobilenet_v2", batch: 2}]')
    file.write_text(
        text.replace("[throughput]", "[throughput, [throughput, compile_time]]").replace(
            "new: {}", "new: {toolchains: [relay]}"
        )
    )
    jobs = tune_jobs(read_jobs(file))
    for command in ("status", "collect"):
        assert cli.main(["batch", command, str(file)]) == 0
        output = capsys.readouterr().out
        assert all(len(line) <= int(columns) or " " not in line.strip() for line in output.splitlines())
        assert all(
            job.name in output.split() or f"{job.name}:" in output.split() for job in jobs if command == "status"
        )
        assert output.count("mobilenet_v2") >= 6 and "relay" in output
        assert command == "collect" or output.count("batch 2") == 6
    rows = collect(jobs)
    assert {row.toolchain for row in rows} == {"relay"} and {row.batch for row in rows} == {None, 2}


def test_a_time_limit_that_ended_first_is_no_accident(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [job, *_] = tune_jobs(read_jobs(file))
    reason = "the time limit ended before a candidate was measured; the same command with more time continues"
    failure = {"kind": "timeout", "stage": "measure", "step": "", "reason": reason}
    _edit(job.folder / "result.json", lambda result: result.update(deployment=None))
    _edit(job.folder / "result.json", lambda result: result["verdict"].update(failure=failure))
    with mock.patch.object(type(job), "run", return_value=True):
        Reporter(job.records).watch(job)
    assert job.records.report is not None
    assert (job.records.report.state, job.records.report.reason) == ("finished", reason)
    [state] = job_states([job])
    assert (state.state, state.reason) == ("finished", reason)


def test_a_refused_submission_leaves_no_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(file.parent / "runs")
    monkeypatch.setattr("passsearch.batch.queues.shutil.which", lambda _: None)
    file.write_text(file.read_text().replace("big: {toolchains: [relay]}", "big: {}"))
    assert cli.main(["batch", "submit", str(file), "--executor", "slurm"]) == 3
    assert "No `sbatch` here" in capsys.readouterr().err
    assert not (file.parent / "runs").exists()
