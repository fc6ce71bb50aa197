"""The steps of the paper's evaluation on a tiny network, and the choice of runs and machines."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import short_plans

import passsearch
from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.errors import EnvironmentFault
from passsearch.toolchain import Toolchain

CF22 = Path(__file__).parents[2] / "reproduction" / "cf22"
STEPS = ("run", "permute", "candidates", "selections", "networks", "turns")
TABLES = ("tables", "cells", "compile_times", "figures")
HERE = {"device": {"name": "A CPU", "cores": 2, "threads": 2, "memory_bytes": 1, "system": "Linux 1"}, "target": "llvm"}


@pytest.fixture
def cf22(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the scripts importable, and forget them afterwards: `run` is a common name."""
    monkeypatch.setattr(sys, "path", [str(CF22), *sys.path])
    yield
    for name in (*STEPS, *TABLES, "open_question"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(cf22: None) -> Any:
    import run  # type: ignore[import-not-found]

    return run


@pytest.fixture
def subject(run: Any, relay: Toolchain, tiny_network: Path, tmp_path: Path) -> Any:
    with passsearch.session(tiny_network, toolchain=relay.name, plans=short_plans.SHORT) as evaluator:
        session = evaluator.session
    options = Namespace(protocol="cf22", longest=1e-9, orders=3, compiles=2, winners=None)
    return run.Subject("tiny", session, str(tiny_network), None, tmp_path, options)


def test_another_kernel_build_and_a_little_more_memory_are_the_same_machine(run: Any) -> None:
    there = {**HERE, "device": {**HERE["device"], "memory_bytes": 4097, "system": "Linux 2"}}  # type: ignore[dict-item]
    assert run.differences(there, HERE) == []


@pytest.mark.parametrize(("key", "value"), [("name", "Another CPU"), ("cores", 4)])
def test_results_of_another_machine_are_refused_with_what_differs(
    run: Any, monkeypatch: pytest.MonkeyPatch, key: str, value: object
) -> None:
    monkeypatch.setattr(run, "provenance", lambda _: HERE)
    there = {**HERE, "device": {**HERE["device"], key: value}}  # type: ignore[dict-item]
    subject = Namespace(name="tiny", session=None, document={"network": "tiny", "compare": there})
    with pytest.raises(SystemExit, match=f"`compare` of tiny was measured elsewhere: {key} {value!r} there"):
        run.refuse_other_machine(subject)


def test_steps_that_are_measured_are_named_before_the_network_is_built(
    run: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "prepare", lambda *_: pytest.fail("the network is built for nothing"))
    options = Namespace(results=None, protocol="paired", steps=["agree", "compare"])
    run.evaluate("resnet50_pytorch", options)
    assert "resnet50_pytorch.json` has these steps; to measure them here, give another --results" in (
        capsys.readouterr().err
    )


def test_what_passsearch_refuses_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise EnvironmentFault("the toolchain cannot import `torch`")

    monkeypatch.setattr(run, "prepare", refuse)
    monkeypatch.setattr(sys, "argv", ["run.py", "resnet50_pytorch", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"^error: the toolchain cannot import `torch`$"):
        run.main()


@pytest.mark.parametrize(("latency_s", "runs"), [(0.01, 1000), (1.0, 272), (30.0, 100)])
def test_a_slow_network_has_fewer_runs_by_the_papers_protocol(run: Any, latency_s: float, runs: int) -> None:
    assert run.capped_runs(latency_s, 300.0) == runs


def test_orders_are_all_different_and_have_the_selections_passes(cf22: None) -> None:
    from selections import orders  # type: ignore[import-not-found]

    selection = Candidate(Pipeline.parse("A,B,C,D,E"), name="AS-0")
    other = Candidate(Pipeline.parse("B,A,C,D,E"), name="AS-1")
    ten = orders([selection, other], count=10)
    assert len({each.pipeline for each in ten}) == 10 and ten == orders([selection, other], count=10)
    assert ten[0] == selection and ten[1].pipeline == other.pipeline
    assert {frozenset(each.pipeline.passes) for each in ten} == {frozenset(selection.pipeline.passes)}
    assert len(orders([Candidate(Pipeline.parse("A,B"))], count=10)) == 2


@pytest.mark.slow
def test_the_papers_protocol_writes_down_its_runs(run: Any, subject: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    selections = [Candidate(Pipeline.parse("SimplifyInference,FuseOps"), name="BL")]
    monkeypatch.setattr(run, "paper_candidates", lambda *_, **__: selections)
    document = run.compare(subject)
    assert document["runs"] == 100 and document["rows"]["BL"]["latency_s"]["n"] == 100
    import tables  # type: ignore[import-not-found]

    _, heads, [row] = tables.cf22([{"tiny": {"cf22": document | {"device": {"name": "A CPU"}}}}])
    assert row[heads.index("runs")] == "100" and row[heads.index("BL")] != "–"


@pytest.mark.slow
def test_orders_are_timed_once_a_binary_and_the_best_one_again(
    run: Any, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    selections = [
        Candidate(Pipeline.parse("SimplifyInference,FoldConstant,FuseOps"), name="AS-0"),
        Candidate(Pipeline.parse("FirstOrderGradient"), name="PO-0"),
    ]
    monkeypatch.setattr(run, "paper_candidates", lambda *_, **__: selections)
    step = run.permute_selections(subject)
    rows = step["rows"]["AS-0"]
    assert len(rows) == 6 and {row["level"] for row in rows} == {0, 3}
    by_binary = {row["binary"]: row["ratio"]["ratio"] for row in rows if "ratio" in row}
    assert all(row["ratio"]["ratio"] == by_binary[row["binary"]] for row in rows if "ratio" in row)
    assert step["best"]["AS-0 best"]["latency_s"]["processes"] == run.PROCESSES
    assert step["stand_ins"] == {"AS-0 best": True}
    assert all("failure" in row for row in step["rows"]["PO-0"])
    import tables  # type: ignore[import-not-found]

    _, heads, cells = tables.permuted([{"tiny": {"permute": step | {"device": {"name": "A CPU"}}}}])
    assert [row[heads.index("failed")] for row in cells] == ["0", "2"]
    assert cells[0][heads.index("best, interleaved")] != "–" == cells[1][heads.index("best, interleaved")]


@pytest.mark.slow
def test_a_gain_in_compile_time_is_divided_between_numpy_and_the_selection(run: Any, subject: Any) -> None:
    best = {"pipeline": "SimplifyInference,FoldConstant,FuseOps", "build": BuildOptions(opt_level=0).to_json()}
    subject.document["compile_time"] = {"best": best}
    step = run.attribute(subject) | {"device": {"name": "A CPU"}}
    assert {name: len(compiles) for name, compiles in step["compiles"].items()} == {
        "O3": 2,
        "O3-numpy": 2,
        "AS-best": 2,
    }
    import tables

    _, heads, [row] = tables.attributed([{"tiny": {"attribute": step}}])
    assert "[" in row[heads.index("saved without constants")] and row[heads.index("quickest sequence")].endswith(" s")


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 3])
def test_a_stand_in_is_the_binary_that_tvm_makes(run: Any, subject: Any, level: int) -> None:
    import permute  # type: ignore[import-not-found]

    candidate = Candidate(Pipeline.parse("SimplifyInference,AlterOpLayout"), BuildOptions(opt_level=level), "AS-0 best")
    with subject.evaluator() as evaluator:
        assert permute.stand_in(evaluator, candidate) != candidate
        assert permute.same_binary(evaluator, candidate)


@pytest.mark.slow
def test_the_open_question_is_answered_on_any_network(
    cf22: None, relay: Toolchain, tiny_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import open_question  # type: ignore[import-not-found]

    results = tmp_path / "open_question.json"
    options = ["--toolchain", relay.name, "--compiles", "2", "--results", str(results)]
    monkeypatch.setattr(sys, "argv", ["open_question.py", str(tiny_network), *options])
    open_question.main()
    [network] = open_question.read_rows(results, "networks").values()
    assert list(network["variants"]) == ["neither", "MergeCompilerRegions", "SimplifyInference", "both"]
    assert all(len(compiles) == 2 for compiles in network["variants"].values())
    assert all(row["compile_s"] > 0 and row["parts_s"] for row in network["variants"]["both"])
    assert open_question.table({"tiny": network}).count("| tiny |") == 4
