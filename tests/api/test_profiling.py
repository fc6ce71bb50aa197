"""Profiles on a real compiler: calls of kernels, the whole inference, and what a run's winner is compared with."""

from pathlib import Path

import pytest
import short_plans
from jobs import MOSTLY_RELAX, Job

import passsearch
from passsearch.cli import main
from passsearch.errors import UserError


@MOSTLY_RELAX
def test_a_network_is_its_kernels_and_the_rest(job: Job, tiny_network: Path) -> None:
    document = passsearch.profile(
        tiny_network, [job.lowest_baseline, job.default_baseline], toolchain=job.toolchain.name, plans=short_plans.SHORT
    )
    assert [row["name"] for row in document["pipelines"]] == [job.lowest_baseline, job.default_baseline]
    for row in document["pipelines"]:
        assert row["kernels"] and len(row["calls"]) == sum(kernel["calls"] for kernel in row["kernels"])
        assert row["whole_s"] == pytest.approx(row["kernels_s"] + sum(row["rest"].values()))
        assert row["kernels_s"] == pytest.approx(sum(call["seconds"] for call in row["calls"]))
    assert "of roof" in repr(document) and "<table>" in document._repr_html_()


@MOSTLY_RELAX
def test_a_run_is_profiled_by_its_baseline_and_its_winner(job: Job, tuned: passsearch.TuneResult) -> None:
    document = passsearch.profile(tuned.run, plans=short_plans.SHORT)
    baseline, best = document["pipelines"]
    assert baseline["name"] == job.default_baseline
    assert best["name"] == "best" and best["pipeline"] == tuned.document["best"]["pipeline"]
    with pytest.raises(UserError, match="has its own inputs"):
        passsearch.profile(tuned.run, batch=2)
    with pytest.raises(UserError, match="has its own inputs"):
        passsearch.profile(tuned.run, sizes="x=4x8")


@pytest.mark.slow
@MOSTLY_RELAX
def test_the_command_profiles_a_run(tuned: passsearch.TuneResult, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(tuned.run)]) == 0
    assert "best" in capsys.readouterr().out
