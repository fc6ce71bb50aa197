"""The search on a real compiler: failures are reported, runs continue where they stopped, exports run."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import short_plans
from jobs import MOSTLY_RELAX, Job, tune_and_confirm

import passsearch
from passsearch.api.common import network_session, open_evaluator
from passsearch.core import Failure, Limits, NetworkOptions, Pipeline
from passsearch.dialects import dialect
from passsearch.errors import UserError

PROGRAM = Path(__file__).parent / "programs" / "tune_until_killed.py"

BAD_PASSES = {"Crash": "crash", "Hang": "timeout", "Refuse": "compile_error"}
"""Kind of failure by the name of a pass that fails on every IR."""

CONFIRMING, NEVER = 98, 99
"""Numbers of evaluated candidates that are not reached: an interruption in the confirmation, and none."""


@pytest.fixture(scope="module")
def front(
    job: Job, tuned: passsearch.TuneResult, tiny_network: Path, tmp_path_factory: pytest.TempPathFactory
) -> passsearch.TuneResult:
    """A finished run with two objectives, a random sampler and a no-op pass; it finds the facts of `tuned`."""
    return short_plans.tune(
        tiny_network,
        toolchain=job.toolchain.name,
        objective=["throughput", "compile_time"],
        trials=30,
        confirm=0,
        passes=(*job.cheap, job.no_op),
        sampler="random",
        out=tmp_path_factory.mktemp("front") / "run",
    )


@pytest.fixture(scope="module")
def survived(
    job: Job, tiny_network: Path, bad_passes: Path, tmp_path_factory: pytest.TempPathFactory
) -> passsearch.TuneResult:
    """A finished run whose passes crash, hang, refuse and change the outputs, but for one."""
    return short_plans.tune(
        tiny_network,
        toolchain=job.toolchain.name,
        trials=7,
        confirm=0,
        deadline=8,
        passes=[job.cheap[0], *BAD_PASSES, "Lie"],
        catalogs=[bad_passes],
        out=tmp_path_factory.mktemp("survived") / "run",
    )


@MOSTLY_RELAX
def test_the_baselines_own_passes_are_tried_first_and_make_its_binary(
    job: Job, tiny_network: Path, tmp_path: Path
) -> None:
    result = short_plans.tune(
        tiny_network,
        objective="compile_time",
        toolchain=job.toolchain.name,
        trials=1,
        confirm=0,
        plans=replace(short_plans.SHORT, explore_s=0.0),
        out=tmp_path / "run",
    )
    candidates = [trial for trial in result.document["trials"] if trial["pipeline"]]
    assert [trial["name"] for trial in candidates] == [f"{job.default_baseline}-passes"]
    assert candidates[0]["binary"] == result.document["baseline"]["binary"]


def test_where_a_search_may_add_little_only_the_recommended_sequence_is_measured(tmp_path: Path) -> None:
    result = short_plans.tune("zoo:bert_tiny", toolchain="relax", least_gain=0.9, confirm=0, out=tmp_path / "run")
    measured = {trial["name"] for trial in result.document["trials"]}
    recommended = passsearch.recommend("zoo:bert_tiny", toolchain="relax")["pipeline"]["name"]
    assert measured == {"default", recommended}
    assert result.document["space"]["ended"].startswith("a search adds at most")


@pytest.mark.parametrize(("name", "kind"), BAD_PASSES.items())
@MOSTLY_RELAX
def test_a_search_survives_a_pass_that_fails_and_reports_it(
    name: str, kind: str, job: Job, survived: passsearch.TuneResult
) -> None:
    document = survived.document
    assert {failure["kind"] for failure in document["failed"] if failure["step"] == name} == {kind}
    assert document["failures"][kind] >= 1
    assert name not in survived.best.pipeline
    trials = [trial for trial in document["trials"] if trial["pipeline"] and not trial["name"]]
    assert job.cheap[0] in {trial["pipeline"] for trial in trials}, "the sampler continued"
    lowering = dialect(job.toolchain.dialect).builds[0].to_json()
    assert all(trial["build"] == lowering for trial in trials if trial["build"]["opt_level"] == 0)


@MOSTLY_RELAX
def test_passes_that_fail_during_exploration_cost_no_trial(survived: passsearch.TuneResult) -> None:
    document = survived.document
    measured = len(document["trials"]) - len(document["baselines"])
    wrong = sum(failure["kind"] == "wrong_result" for failure in document["failed"])
    assert document["space"]["closed"] and document["space"]["states"] == 4
    assert measured + wrong == document["space"]["sequences_asked"]


@MOSTLY_RELAX
def test_a_pass_that_makes_outputs_wrong_never_wins_and_gets_a_reproducer(
    job: Job, survived: passsearch.TuneResult
) -> None:
    document = survived.document
    wrong = [failure for failure in document["failed"] if failure["kind"] == "wrong_result"]
    assert wrong and all("Lie" in failure["pipeline"] for failure in wrong)
    assert not any("Lie" in trial["pipeline"] for trial in document["trials"])
    assert "Lie" not in survived.best.pipeline
    [reproducer] = document["reproducers"]
    assert "deviate" in reproducer["reason"]
    folder = survived.run / reproducer["folder"]
    report = json.loads((folder / "report.json").read_text())
    assert report["passes"] == [{"name": "Lie", "arguments": {}, "factory": "bad_passes:lie"}]
    before, after = ((folder / name).read_text() for name in ("before.json", "after.json"))
    assert job.replaced in before and job.replaced not in after
    assert "large/image" in np.load(folder / "inputs.npz")


def test_a_confirmed_winner_is_exported_as_a_script_that_needs_the_compiler_only(
    job: Job, tuned: passsearch.TuneResult, tmp_path: Path
) -> None:
    assert tuned.document["verdict"]["confirmed"]
    folder = tuned.export(tmp_path / "deploy")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(job.toolchain.python), str(folder / "build_model.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_finished_run_measures_nothing_when_it_is_started_again(
    job: Job, tuned: passsearch.TuneResult, tiny_network: Path
) -> None:
    facts = (tuned.run / "log.jsonl").read_text().count("\n")
    folders = {folder.name for folder in (tuned.run / "artifacts").iterdir() if folder.is_dir()}
    assert len(folders) <= 2, "the baseline and the winner stay"
    again = tune_and_confirm(job, tiny_network, tuned.run)
    assert {folder.name for folder in (tuned.run / "artifacts").iterdir() if folder.is_dir()} == folders
    assert (tuned.run / "log.jsonl").read_text().count("\n") == facts
    assert again.best.pipeline == tuned.best.pipeline
    assert again.document["verdict"] == tuned.document["verdict"]


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@MOSTLY_RELAX
def test_a_killed_run_goes_on(job: Job, tiny_network: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    log = run / "log.jsonl"
    command = [sys.executable, str(PROGRAM), str(tiny_network), job.toolchain.name, str(run), *job.cheap]
    child = subprocess.Popen(command, start_new_session=True)
    give_up_s = time.monotonic() + 120
    while time.monotonic() < give_up_s and sum('"samples"' in line for line in lines(log)) < 2:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    before = lines(log)
    assert sum('"samples"' in line for line in before) >= 2 and not (run / "result.json").exists()
    short_plans.tune(
        tiny_network, toolchain=job.toolchain.name, trials=job.trials, confirm=0, passes=job.cheap, out=run
    )
    after = lines(log)
    # The kill may have cut the last line of the log short.
    assert after[: len(before)] == before or after[: len(before) - 1] == before[:-1]
    keys = [(entry["kind"], entry["key"]) for entry in (json.loads(line.split(" ", 1)[1]) for line in after)]
    assert len(keys) == len(set(keys)), "nothing is applied, built or measured twice"
    document = json.loads((run / "result.json").read_text())
    assert document["space"]["states_measured"] > len(document["baselines"])


@MOSTLY_RELAX
def test_sequences_that_make_equal_ir_are_one_candidate(
    job: Job, tuned: passsearch.TuneResult, front: passsearch.TuneResult
) -> None:
    space = front.document["space"]
    assert space["closed"] and space["states"] == tuned.document["space"]["states"], "the no-op pass makes no new IR"
    assert space["duplicates"] > 0
    assert job.no_op not in front.best.pipeline


@MOSTLY_RELAX
def test_of_two_objectives_the_front_has_no_candidate_that_is_worse_in_both(front: passsearch.TuneResult) -> None:
    by_speed = sorted(front.document["pareto"], key=lambda candidate: candidate["ratio"]["ratio"])
    compile_times = [candidate["compile_s"] for candidate in by_speed]
    assert compile_times and compile_times == sorted(compile_times)


@MOSTLY_RELAX
def test_objectives_that_cannot_be_read_are_refused_before_the_search(
    job: Job, tiny_network: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="Objective `power` cannot be read"):
        short_plans.tune(tiny_network, toolchain=job.toolchain.name, objective="power", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@MOSTLY_RELAX
def test_a_run_stopped_by_its_time_limit_gives_the_same_result_when_it_is_started_again(
    job: Job, small_network: Path, tmp_path: Path
) -> None:
    def tune() -> passsearch.TuneResult:
        return short_plans.tune(
            small_network, toolchain=job.toolchain.name, trials=500, timeout=10, confirm=0, out=tmp_path / "run"
        )

    first, second = tune(), tune()
    assert first.document["space"]["ended"] == "time limit"
    assert first.document["space"] == second.document["space"]
    assert first.best.pipeline == second.best.pipeline


@MOSTLY_RELAX
def test_a_time_limit_that_suffices_for_the_baseline_only_is_named_as_the_reason(
    job: Job, tiny_network: Path, tmp_path: Path
) -> None:
    result = short_plans.tune(tiny_network, toolchain=job.toolchain.name, timeout=0.5, out=tmp_path / "run")
    assert result.verdict["reason"].startswith("the time limit ended before a candidate was measured")
    assert result.document["best"]["name"] == result.document["baseline"]["name"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nonsense"}, "Impossible target"),
        ({"confirm": 1}, "0 for none"),
        ({"passes": ["FuseOp"]}, "did you mean `FuseOps`"),
        ({"passes": []}, "No pass to search"),
    ],
)
@MOSTLY_RELAX
def test_a_mistake_leaves_nothing_that_blocks_its_correction(
    options: dict[str, Any], message: str, job: Job, tiny_network: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        short_plans.tune(tiny_network, toolchain=job.toolchain.name, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_network_that_cannot_be_imported_is_refused_with_the_reason(job: Job, tmp_path: Path) -> None:
    node = onnx.helper.make_node("NoSuchOperator", ["x"], ["y"], domain="nowhere")
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "odd", tensors[:1], tensors[1:])
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("nowhere", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "odd.onnx"))
    with pytest.raises(UserError, match="Cannot import"):
        short_plans.tune(tmp_path / "odd.onnx", toolchain=job.toolchain.name, out=tmp_path / "run", trust=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_pass_that_hangs_does_not_outlast_a_short_run(
    job: Job, tiny_network: Path, bad_passes: Path, tmp_path: Path
) -> None:
    options = NetworkOptions(toolchain=job.toolchain.name, catalogs=[bad_passes])
    session = network_session(tiny_network, None, options, Limits(timeout=3.0))
    with open_evaluator(session, folder=tmp_path / "own", remember=False) as evaluator:
        failure = evaluator.reach(Pipeline.parse("Hang"))
    assert isinstance(failure, Failure) and failure.kind == "timeout"


@pytest.mark.parametrize("job", ["relax"], indirect=True)
@pytest.mark.parametrize("confirms", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_interrupted_result_gives_way_to_a_later_one_and_a_finished_result_does_not(
    job: Job, confirms: bool, tiny_network: Path, tmp_path: Path
) -> None:
    def interrupt(most: int) -> dict[str, Any]:
        def progress(step: str, evaluated: int, _: int) -> None:
            if evaluated >= most or (most == CONFIRMING and step.startswith("confirming")):
                raise KeyboardInterrupt

        confirm = 2 if confirms else 0
        options = {"toolchain": job.toolchain.name, "trials": 3, "confirm": confirm, "passes": job.cheap}
        short_plans.tune(tiny_network, **options, progress=progress, out=tmp_path / "run")
        return json.loads((tmp_path / "run" / "result.json").read_text())

    first, *later, whole = [interrupt(most) for most in (1, *([CONFIRMING] if confirms else []), NEVER)]
    assert [document["interrupted"] for document in (first, *later, whole)] == [True, *[True] * len(later), False]
    assert len(first["trials"]) < len([*later, whole][0]["trials"])
    for second in later:
        assert second["best"]["pipeline"] == whole["best"]["pipeline"], "what was to be confirmed"
    assert interrupt(1) == whole


@MOSTLY_RELAX
def test_a_folder_of_a_session_is_not_continued_with_another_network(
    job: Job, tiny_network: Path, small_network: Path, tmp_path: Path
) -> None:
    options = {"toolchain": job.toolchain.name, "folder": tmp_path / "own", "remember": False}
    with passsearch.session(tiny_network, **options) as evaluator:
        evaluator.reach(Pipeline.parse(job.cheap[0]))
        with pytest.raises(UserError, match="in use by another process"), passsearch.session(tiny_network, **options):
            pass
    facts = (tmp_path / "own" / "log.jsonl").read_bytes()
    with pytest.raises(UserError, match="is of another network"), passsearch.session(small_network, **options):
        pass
    with passsearch.session(tiny_network, **options) as evaluator:
        evaluator.reach(Pipeline.parse(job.cheap[0]))
    assert (tmp_path / "own" / "log.jsonl").read_bytes() == facts, "the same network goes on"
