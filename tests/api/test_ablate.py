"""An ablation says what each pass of a winner is worth, goes on where it was cut off, and leads to a shorter export."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import short_plans
from jobs import Job

import passsearch
from passsearch.catalog import load
from passsearch.errors import UserError
from passsearch.export import read_pipeline
from passsearch.store import Log, read_ablation

PLANS = replace(short_plans.SHORT, comparison_processes=2, compile_pairs=4)


@pytest.fixture
def run(tuned: passsearch.TuneResult, job: Job, tmp_path: Path) -> Path:
    """A copy of a finished run whose winner has two passes, and one that changes nothing."""
    folder = tmp_path / "run"
    shutil.copytree(tuned.run, folder)
    document = json.loads((folder / "result.json").read_text())
    names = [job.cheap[0], job.no_op, job.cheap[1]]
    entries = load(job.toolchain.dialect).entries
    document["best"] |= {"pipeline": ",".join(names), "build": {"opt_level": 0}}
    document["deployment"] |= {"factories": {name: entries[name].factory for name in names}, "states": 4 * ["0"]}
    (folder / "result.json").write_text(json.dumps(document))
    return folder


def measured_kinds(run: Path) -> list[str]:
    return [kind for kind, _ in Log(run / "ablation" / "log.jsonl", writable=False).times if kind != "load"]


@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_an_ablation_without_time_finds_what_needs_no_timing(run: Path, job: Job, tmp_path: Path) -> None:
    result = passsearch.TuneResult.read(run)
    with pytest.raises(UserError, match="has no ablation of its winner"):
        result.export(tmp_path / "deploy", minimal=True)
    cut = passsearch.ablate(run, timeout=0, plans=PLANS)
    assert read_ablation(run) == json.loads(json.dumps(cut))
    assert not cut["complete"] and cut["measured"]["processes"] == 0
    assert cut["dropped"] == [job.no_op]
    assert "timed" not in measured_kinds(run)
    assert "the same command goes on" in repr(cut)

    folder = result.export(tmp_path / "deploy", minimal=True)
    assert str(read_pipeline(folder).pipeline) == ",".join(job.cheap), "the same binary without the third pass"

    facts = (run / "ablation" / "log.jsonl").read_bytes()
    again = passsearch.ablate(run, timeout=0, plans=PLANS)
    assert (run / "ablation" / "log.jsonl").read_bytes() == facts
    assert again["measured"]["measured_at"] == cut["measured"]["measured_at"], "nothing was measured again"
    settings = json.loads((run / "ablation" / "run.json").read_text())
    (run / "ablation" / "run.json").write_text(json.dumps({**settings, "dialect_code": "of another version"}))
    passsearch.ablate(run, timeout=0, plans=PLANS)
    assert not (run / "ablation" / "log.jsonl").read_bytes().startswith(facts), "facts of other passes do not hold"

    document = json.loads((run / "result.json").read_text())
    document["best"]["pipeline"] = ""
    (run / "result.json").write_text(json.dumps(document))
    assert read_ablation(run) is None, "it was of another winner"


@pytest.mark.slow
def test_an_ablation_that_was_cut_off_goes_on(run: Path, job: Job, tmp_path: Path) -> None:
    first, second = job.cheap
    passsearch.ablate(run, timeout=0, plans=PLANS)
    whole = passsearch.ablate(run, plans=PLANS)
    assert whole["complete"] and read_ablation(run) == json.loads(json.dumps(whole))
    assert [row["name"] for row in whole["rows"]] == ["start", f"+{first}", f"+{second}", f"-{first}", f"-{second}"]
    assert all(row["latency_s"] > 0 and row["compile_time"]["ratio"] > 0 for row in whole["rows"])
    without_second = whole["rows"][-1]
    assert without_second["same_binary_as"] in (f"+{first}", "start", "baseline"), "one pipeline is built once"
    assert whole["headline"].startswith(tuple("0123")) and " of 3 passes are worth something" in whole["headline"]
    assert not (run / "ablation" / "artifacts").exists()

    facts = measured_kinds(run)
    assert facts.count("timed") >= 2
    again = passsearch.ablate(run, plans=PLANS)
    assert [kind for kind in measured_kinds(run) if kind in ("timed", "fresh")] == [
        kind for kind in facts if kind in ("timed", "fresh")
    ], "nothing is measured twice"
    assert [row["throughput"] for row in again["rows"]] == [row["throughput"] for row in whole["rows"]]

    folder = passsearch.TuneResult.read(run).export(tmp_path / "deploy", minimal=True)
    assert str(read_pipeline(folder).pipeline) == whole["minimal"]["pipeline"]
    assert job.no_op not in whole["minimal"]["pipeline"]


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_an_ablation_until_all_is_decided_measures_less_and_is_completed_later(run: Path) -> None:
    decided = passsearch.ablate(run, until_decided=True, plans=PLANS)
    assert decided["complete"] and decided["until_decided"]
    winner = [row for row in decided["rows"] if row["kind"] == "ladder"][-1]
    binary = winner["same_binary_as"] or winner["name"]
    as_fast = [row for row in decided["rows"] if row["kind"] == "without" and row["same_binary_as"] == binary]
    compiled = [row["name"] for row in decided["rows"] if row["compile_s"]]
    assert {row["name"] for row in as_fast} <= set(compiled), "compile time decides about what is one binary"
    assert "start" not in compiled, "it decides nothing about a step of the ladder"

    timed = measured_kinds(run).count("timed")
    whole = passsearch.ablate(run, plans=PLANS)
    assert whole["complete"] and not whole["until_decided"]
    assert measured_kinds(run).count("timed") == timed, "nothing is timed twice"
    assert all(row["compile_s"] for row in whole["rows"])
