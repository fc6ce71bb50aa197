"""The main job on a real compiler: failures are values, runs go on where they stopped, exports replay."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import short_plans

import passsearch
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.toolchain import Toolchain

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Job:
    """The main job on one dialect.

    Attributes:
        toolchain: With its compiler.
        cheap: Passes that apply in no time.
        trials: As many candidates as these passes make of the small network, all baselines' but the one to beat.
        idle: Passes of which the second changes nothing.
        named: A sequence of the catalog.
        needed: A pass that stands in it, or that it needs.
        bad: Module of passes that misbehave.
        operator: What the bad pass that lies takes away.
    """

    toolchain: Toolchain
    cheap: tuple[str, ...]
    trials: int
    idle: tuple[str, str]
    named: str
    needed: str
    bad: str
    operator: str

    @property
    def lowest(self) -> str:
        """The baseline that optimises nothing."""
        return dialect(self.toolchain.dialect).baselines[0].name

    @property
    def beaten(self) -> str:
        """The baseline to beat."""
        return dialect(self.toolchain.dialect).default_baseline


_JOBS: dict[str, tuple[Any, ...]] = {
    # 6 IRs at 2 levels, one of them -O3.
    "relay": (
        ("SimplifyInference", "FoldConstant", "FuseOps"),
        11,
        ("SimplifyInference", "DeadCodeElimination"),
        "AS-0",
        "SimplifyInference",
        "bad_passes",
        "nn.relu",
    ),
    # 13 IRs at the one level that is searched.
    "relax": (
        ("DecomposeOpsForInference", "FoldConstant", "LegalizeOps"),
        12,
        ("DecomposeOpsForInference", "AdjustMatmulOrder"),
        "simplify-schedule-cpu",
        "DecomposeOpsForInference",
        "bad_relax_passes",
        "relax.nn.relu",
    ),
}


BOTH = pytest.mark.parametrize("job", _JOBS, indirect=True)
"""Runs a test on both dialects by default; other tests run on the second one with the slow tests."""


@pytest.fixture(params=["relay", pytest.param("relax", marks=pytest.mark.slow)])
def job(request: pytest.FixtureRequest) -> Job:
    """One dialect after the other; skipped where its toolchain is not installed."""
    return Job(request.getfixturevalue(request.param), *_JOBS[request.param])


@pytest.fixture
def bad_passes(job: Job, tmp_path: Path) -> Path:
    """The user's own catalog, in a folder of its own."""
    shutil.copy(DATA / "bad_passes.yaml", tmp_path)
    shutil.copy(DATA / f"{job.bad}.py", tmp_path / "bad_passes.py")
    return tmp_path / "bad_passes.yaml"


@BOTH
def test_the_baselines_own_passes_are_tried_first_and_make_its_binary(
    job: Job, small_network: Path, tmp_path: Path
) -> None:
    result = short_plans.tune(
        small_network,
        objective="compile_time",
        toolchain=job.toolchain.name,
        trials=1,
        confirm=0,
        out=tmp_path / "run",
    )
    candidates = [trial for trial in result.document["trials"] if trial["pipeline"]]
    assert [each["name"] for each in candidates] == [f"{job.beaten}-passes"]
    assert candidates[0]["binary"] == result.document["baseline"]["binary"]


@BOTH
def test_a_search_survives_passes_that_crash_hang_and_refuse_and_reports_each(
    job: Job, small_network: Path, bad_passes: Path, tmp_path: Path
) -> None:
    kinds = {"Crash": "crash", "Hang": "timeout", "Refuse": "compile_error"}
    result = short_plans.tune(
        small_network,
        toolchain=job.toolchain.name,
        trials=job.trials,
        confirm=0,
        deadline=8,
        passes=[*job.cheap, *kinds],
        catalogs=[bad_passes],
        out=tmp_path / "run",
    )
    for name, kind in kinds.items():
        assert {each["kind"] for each in result.document["failed"] if each["step"] == name} == {kind}
        assert name not in result.best.pipeline
    sampled = [trial for trial in result.document["trials"] if trial["pipeline"] and not trial["name"]]
    assert sampled, "the sampler went on"
    lowering = dialect(job.toolchain.dialect).lowering.to_json()
    assert all(trial["build"] == lowering for trial in sampled if trial["build"]["opt_level"] == 0)
    measured = len(result.document["trials"]) - len(result.document["baselines"])
    assert measured == job.trials, "what fails while the space is explored costs no trial"
    assert result.document["reproducers"] == []


@BOTH
def test_a_pass_that_makes_outputs_wrong_never_wins_and_gets_a_reproducer(
    job: Job, small_network: Path, bad_passes: Path, tmp_path: Path
) -> None:
    result = short_plans.tune(
        small_network,
        toolchain=job.toolchain.name,
        trials=4,
        confirm=0,
        passes=[job.cheap[0], "Lie"],
        catalogs=[bad_passes],
        out=tmp_path / "run",
    )
    assert {each["kind"] for each in result.document["failed"] if "Lie" in each["pipeline"]} == {"wrong_result"}
    assert "Lie" not in result.best.pipeline
    _holds_a_reproducer(result, tmp_path / "run", operator=job.operator)


def _holds_a_reproducer(result: passsearch.TuneResult, run: Path, *, operator: str) -> None:
    [found] = result.document["reproducers"]
    folder = run / found["folder"]
    report = json.loads((folder / "report.json").read_text())
    assert report["passes"] == [{"name": "Lie", "arguments": {}, "factory": "bad_passes:lie"}]
    assert "deviate" in found["reason"]
    before, after = (folder / name for name in ("before.json", "after.json"))
    assert operator in before.read_text() and operator not in after.read_text()
    assert "large/image" in np.load(folder / "inputs.npz")


@BOTH
def test_export_replays_and_resume_measures_nothing_again(job: Job, small_network: Path, tmp_path: Path) -> None:
    def tune() -> passsearch.TuneResult:
        return short_plans.tune(
            small_network, toolchain=job.toolchain.name, trials=8, confirm=2, passes=job.cheap, out=tmp_path / "run"
        )

    result = tune()
    facts = (tmp_path / "run" / "log.jsonl").read_text().count("\n")
    again = tune()
    assert (tmp_path / "run" / "log.jsonl").read_text().count("\n") == facts
    assert again.best.pipeline == result.best.pipeline
    assert again.document["verdict"] == result.document["verdict"]
    assert result.document["verdict"]["confirmed"]
    folder = result.export(tmp_path / "deploy")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(job.toolchain.python), str(folder / "build_model.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@BOTH
def test_a_killed_run_goes_on(job: Job, small_network: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = Path(__file__).parent / "programs" / "tune_until_killed.py"
    command = [sys.executable, str(program), str(small_network), job.toolchain.name, str(run), *job.cheap]
    child = subprocess.Popen(command, start_new_session=True)
    log, deadline = run / "log.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline and (not log.exists() or log.read_text().count('"samples"') < 4):
        time.sleep(0.2)
    assert log.read_text().count('"samples"') >= 4
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    before = log.read_text().splitlines()
    assert not (run / "result.json").exists()
    short_plans.tune(small_network, toolchain=job.toolchain.name, trials=10, confirm=0, passes=job.cheap, out=run)
    after = log.read_text().splitlines()
    assert after[: len(before)] == before or after[: len(before) - 1] == before[:-1]
    keys = [(entry["kind"], entry["key"]) for entry in (json.loads(line.split(" ", 1)[1]) for line in after)]
    assert len(keys) == len(set(keys)), "nothing is applied, built or measured twice"
    document = json.loads((run / "result.json").read_text())
    assert document["space"]["states_measured"] > len(document["baselines"])


def test_equal_ir_is_one_candidate(job: Job, small_network: Path, tmp_path: Path) -> None:
    result = short_plans.tune(
        small_network,
        toolchain=job.toolchain.name,
        trials=30,
        confirm=0,
        passes=job.idle,
        sampler="random",
        out=tmp_path / "run",
    )
    space = result.document["space"]
    assert space["states"] == 2 and space["closed"]
    assert space["duplicates"] > 0
    assert job.idle[1] not in result.best.pipeline


def test_objectives_that_cannot_be_read_are_refused_before_the_search(
    job: Job, small_network: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="Objective `power` cannot be read"):
        short_plans.tune(small_network, toolchain=job.toolchain.name, objective="power", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_objectives_give_a_front(job: Job, small_network: Path, tmp_path: Path) -> None:
    result = short_plans.tune(
        small_network,
        toolchain=job.toolchain.name,
        objective=["throughput", "compile_time"],
        trials=6,
        confirm=0,
        passes=job.cheap,
        out=tmp_path / "run",
    )
    front = result.document["pareto"]
    by_speed = sorted(front, key=lambda each: each["ratio"]["ratio"])
    assert [each["compile_s"] for each in by_speed] == sorted(each["compile_s"] for each in front)


def test_compare_measures_names_and_pipelines_side_by_side(job: Job, small_network: Path) -> None:
    document = short_plans.compare(
        small_network,
        [job.lowest, job.beaten, job.named, ",".join(job.cheap)],
        toolchain=job.toolchain.name,
        rounds=8,
    )
    rows = {row["name"]: row for row in document["rows"]}
    assert rows[job.beaten]["ratio"]["ratio"] == pytest.approx(1.0)
    assert list(rows) == [job.lowest, job.beaten, job.named, ",".join(job.cheap)]
    assert not [row for row in rows.values() if "failure" in row]
    assert job.needed in rows[job.named]["pipeline"].split(","), "needed passes are put in"
    verdicts = {(pair["first"], pair["second"]): pair["verdict"] for pair in document["pairs"]}
    assert len(verdicts) == 6 and all(pair["level"] == pytest.approx(1 - 0.05 / 6) for pair in document["pairs"])
    assert document["processes"] == 8, "as many as six verdicts at once need"


def test_a_tolerance_admits_the_pass_that_says_it_changes_numerics_and_no_other(
    job: Job, small_network: Path, bad_passes: Path
) -> None:
    for tolerance, refused in ((None, {"Guess", "Lie"}), (2.0, {"Lie"})):
        document = short_plans.compare(
            small_network,
            [job.beaten, "Guess", "Lie"],
            toolchain=job.toolchain.name,
            catalogs=[bad_passes],
            tolerance=tolerance,
            rounds=4,
            processes=1,
        )
        rows = {row["name"]: row for row in document["rows"]}
        assert {name for name, row in rows.items() if "failure" in row} == refused, "though both make the same IR"
        assert rows[job.beaten]["outputs"]["deviation"] <= rows[job.beaten]["outputs"]["tolerance"] < 1e-3
    assert rows["Guess"]["outputs"]["tolerance"] == 2.0


@pytest.mark.slow
def test_a_baseline_against_itself_is_the_noise_and_no_win(job: Job, small_network: Path) -> None:
    document = short_plans.compare(small_network, [job.beaten, job.beaten], toolchain=job.toolchain.name, rounds=4)
    first, second = document["rows"]
    assert first["binary"] == second["binary"] and first["latency_s"]["samples"] != second["latency_s"]["samples"]
    assert not second["improved"] and document["pairs"][0]["verdict"] == "same binary"
    assert 0 < document["noise_floor"] < 1


@pytest.mark.parametrize("options", [{"protocol": "cf22"}, {"cache": "flushed"}])
def test_other_ways_to_measure_say_so(options: dict[str, str], job: Job, small_network: Path) -> None:
    document = short_plans.compare(
        small_network, [job.lowest, job.beaten], toolchain=job.toolchain.name, rounds=4, processes=1, **options
    )
    [slow, _] = document["rows"]
    if "protocol" in options:
        assert document["protocol"] == "cf22" and document["pairs"] == [] and slow["latency_s"]["n"] == 1000
        assert slow["ratio"]["interval"] is None and not slow["improved"]
    else:
        assert document["cache"] == slow["conditions"]["cache"] == "flushed" and len(document["pairs"]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"protocol": "mlperf"}, "Unknown protocol `mlperf`"),
        ({"cache": "cold"}, "Unknown cache state `cold`"),
        ({"protocol": "cf22", "cache": "flushed"}, "warm caches"),
    ],
)
def test_ways_to_measure_that_are_not_are_refused(
    options: dict[str, str], words: str, job: Job, small_network: Path
) -> None:
    with pytest.raises(UserError, match=words):
        short_plans.compare(small_network, [job.beaten], toolchain=job.toolchain.name, **options)


def test_compare_charges_each_pipeline_its_own_passes(job: Job, small_network: Path) -> None:
    last = job.cheap[-1]
    once, twice = f"FoldConstant,{last}", f"FoldConstant,FoldConstant,{last}"
    document = short_plans.compare(small_network, [once, twice], toolchain=job.toolchain.name, rounds=4, processes=1)
    first, second = document["rows"]
    assert first["state"] == second["state"]
    assert second["apply_s"] > first["apply_s"]


@pytest.mark.slow
def test_a_run_stopped_by_its_time_limit_says_the_same_again(job: Job, small_network: Path, tmp_path: Path) -> None:
    def tune() -> passsearch.TuneResult:
        return short_plans.tune(
            small_network,
            toolchain=job.toolchain.name,
            trials=500,
            timeout=25,
            confirm=0,
            passes=job.cheap,
            out=tmp_path / "run",
        )

    first, second = tune(), tune()
    assert first.document["space"] == second.document["space"]
    assert first.best.pipeline == second.best.pipeline


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "nonsense"}, "Impossible target"),
        ({"confirm": 1}, "0 for none"),
        ({"passes": ["FuseOp"]}, "did you mean `FuseOps`"),
    ],
)
def test_a_mistake_leaves_nothing_that_blocks_its_correction(
    options: dict[str, Any], words: str, job: Job, small_network: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        short_plans.tune(small_network, toolchain=job.toolchain.name, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_network_that_cannot_be_imported_is_said_so(job: Job, tmp_path: Path) -> None:
    node = onnx.helper.make_node("NoSuchOperator", ["x"], ["y"], domain="nowhere")
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "odd", tensors[:1], tensors[1:])
    opsets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("nowhere", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), str(tmp_path / "odd.onnx"))
    with pytest.raises(UserError, match="Cannot import"):
        short_plans.tune(tmp_path / "odd.onnx", toolchain=job.toolchain.name, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_compilers_are_compared_by_name(relay: Toolchain, relax: Toolchain, small_network: Path) -> None:
    """What fails and what is asked for twice stands in the middle: every row has its own samples."""
    asked = [
        f"{relay.name}:O0",
        f"{relax.name}:default",
        f"{relay.name}:ToMixedPrecision",
        f"{relay.name}:O3",
        f"{relax.name}:schedule-cpu",
        f"{relay.name}:O3",
    ]
    document = short_plans.compare(small_network, asked, toolchain=relay.name, rounds=4, processes=2)
    rows = document["rows"]
    first, second = ([name for name in asked if name.startswith(f"{each.name}:")] for each in (relay, relax))
    assert [row["name"] for row in rows] == [*first, *second]
    assert [each["name"] for each in document["toolchains"]] == [relay.name, relax.name]
    assert document["baseline"] == f"{relay.name}:O3"
    failed, *measured = sorted(rows, key=lambda row: "failure" not in row)
    assert failed["name"] == f"{relay.name}:ToMixedPrecision" and failed["failure"]["kind"] == "wrong_result"
    assert [row["toolchain"] for row in measured] == [relay.name] * 3 + [relax.name] * 2
    samples = [tuple(row["latency_s"]["samples"]) for row in measured]
    assert len(set(samples)) == 5 and {len(each) for each in samples} == {8}, "4 rounds in 2 processes, each its own"
    assert len({row["binary"] for row in measured}) == 4, "O3 was asked for twice"
    assert all(row["outputs"]["deviation"] <= row["outputs"]["tolerance"] for row in measured)


def test_one_toolchain_is_one_side_however_it_is_named(relay: Toolchain, small_network: Path) -> None:
    document = short_plans.compare(
        small_network, ["O3", f"{relay.name}:O0"], rounds=2, processes=1, toolchain=relay.name
    )
    assert "toolchains" not in document and [row["name"] for row in document["rows"]] == ["O3", "O0"]


def test_the_papers_protocol_is_for_one_toolchain(relay: Toolchain, relax: Toolchain, small_network: Path) -> None:
    with pytest.raises(UserError, match="takes those of one toolchain"):
        short_plans.compare(small_network, [f"{relay.name}:O3", f"{relax.name}:default"], protocol="cf22")
