"""Comparisons of baselines, pipelines and compilers on a real compiler."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import short_plans
from jobs import MOSTLY_RELAX, Job

from passsearch.core import Candidate, Failure
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate.testing import Machine, Noise, SimulatedEvaluator
from passsearch.search import Document
from passsearch.studies import Side
from passsearch.studies.comparison import _share_reference
from passsearch.toolchain import Toolchain


@pytest.fixture(scope="module")
def baselines(job: Job, tiny_network: Path) -> Document:
    """The default baseline twice, beside another one, in as many processes as the verdicts need."""
    names = [job.lowest_baseline, job.default_baseline, job.default_baseline]
    return short_plans.compare(tiny_network, names, toolchain=job.toolchain.name, rounds=4)


@pytest.fixture(scope="module")
def pipelines(job: Job, tiny_network: Path, bad_passes: Path) -> Document:
    """The default baseline, pipelines, and two passes that change the outputs, without a tolerance."""
    last = job.cheap[-1]
    texts = [job.default_baseline, job.sequence, f"FoldConstant,{last}", f"FoldConstant,FoldConstant,{last}"]
    return short_plans.compare(
        tiny_network,
        [*texts, "Guess", "Lie"],
        toolchain=job.toolchain.name,
        catalogs=[bad_passes],
        rounds=4,
        processes=1,
    )


@pytest.fixture(scope="module")
def papers_protocol(job: Job, tiny_network: Path) -> Document:
    """Two baselines by the paper's protocol; one is named with its toolchain, the other without."""
    names = [job.lowest_baseline, f"{job.toolchain.name}:{job.default_baseline}"]
    return short_plans.compare(tiny_network, names, toolchain=job.toolchain.name, protocol="cf22")


def failed_names(document: Document) -> set[str]:
    return {row["name"] for row in document["rows"] if "failure" in row}


@MOSTLY_RELAX
def test_baselines_are_compared_in_as_many_processes_as_the_verdicts_need(job: Job, baselines: Document) -> None:
    lowest, first, _ = baselines["rows"]
    assert [lowest["name"], first["name"]] == [job.lowest_baseline, job.default_baseline]
    assert first["ratio"]["ratio"] == pytest.approx(1.0)
    level = 1 - 0.05 / 3
    assert [pair["level"] for pair in baselines["pairs"]] == [pytest.approx(level)] * 3
    assert baselines["processes"] == short_plans.SHORT.comparison_processes


@MOSTLY_RELAX
def test_a_baseline_against_itself_shows_the_noise_and_no_win(baselines: Document) -> None:
    _, first, second = baselines["rows"]
    assert first["binary"] == second["binary"] and first["latency_s"]["samples"] != second["latency_s"]["samples"]
    assert not second["improved"]
    assert [pair["verdict"] for pair in baselines["pairs"] if pair["rows"] == [1, 2]] == ["same binary"]
    assert baselines["noise_floor"] > 0


@MOSTLY_RELAX
def test_a_sequence_of_the_catalog_is_compared_with_the_passes_it_needs(job: Job, pipelines: Document) -> None:
    baseline, sequence, *_ = pipelines["rows"]
    assert [baseline["name"], sequence["name"]] == [job.default_baseline, job.sequence]
    assert job.needed in sequence["pipeline"].split(",") and sequence["latency_s"]["median"] > 0


@MOSTLY_RELAX
def test_a_pipeline_is_charged_for_a_pass_that_it_applies_twice(pipelines: Document) -> None:
    _, _, once, twice, *_ = pipelines["rows"]
    assert once["state"] == twice["state"]
    assert twice["apply_s"] > once["apply_s"]


@MOSTLY_RELAX
def test_a_tolerance_admits_the_pass_that_declares_a_change_of_numerics_and_no_other(
    job: Job, tiny_network: Path, bad_passes: Path, pipelines: Document
) -> None:
    assert failed_names(pipelines) == {"Guess", "Lie"}
    tolerant = short_plans.compare(
        tiny_network,
        [job.default_baseline, "Guess", "Lie"],
        toolchain=job.toolchain.name,
        catalogs=[bad_passes],
        tolerance=2.0,
        rounds=4,
        processes=1,
    )
    assert failed_names(tolerant) == {"Lie"}, "although both passes make the same IR"
    for document in (pipelines, tolerant):
        assert document["rows"][0]["outputs"]["deviation"] <= document["rows"][0]["outputs"]["tolerance"] < 1e-3
    assert tolerant["rows"][1]["outputs"]["tolerance"] == 2.0


@MOSTLY_RELAX
def test_the_papers_protocol_runs_each_pipeline_1000_times_and_gives_no_verdict(papers_protocol: Document) -> None:
    slow, _ = papers_protocol["rows"]
    assert papers_protocol["protocol"] == "cf22" and papers_protocol["pairs"] == []
    assert slow["latency_s"]["n"] == 1000
    assert slow["ratio"]["interval"] is None and not slow["improved"]


@MOSTLY_RELAX
def test_one_toolchain_is_one_side_with_and_without_its_name(job: Job, papers_protocol: Document) -> None:
    assert "toolchains" not in papers_protocol
    assert [row["name"] for row in papers_protocol["rows"]] == [job.lowest_baseline, job.default_baseline]


@MOSTLY_RELAX
def test_measurements_with_flushed_caches_are_marked(job: Job, tiny_network: Path) -> None:
    document = short_plans.compare(
        tiny_network, [job.default_baseline], toolchain=job.toolchain.name, rounds=4, processes=1, cache="flushed"
    )
    [row] = document["rows"]
    assert document["cache"] == row["conditions"]["cache"] == "flushed"


@MOSTLY_RELAX
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "mlperf"}, "Unknown protocol `mlperf`"),
        ({"cache": "cold"}, "Unknown cache state `cold`"),
        ({"protocol": "cf22", "cache": "flushed"}, "warm caches"),
    ],
)
def test_unknown_protocols_and_cache_states_are_refused(
    options: dict[str, str], message: str, job: Job, tiny_network: Path
) -> None:
    with pytest.raises(UserError, match=message):
        short_plans.compare(tiny_network, [job.default_baseline], toolchain=job.toolchain.name, **options)


def test_compilers_are_compared_by_name(relay: Toolchain, relax: Toolchain, tiny_network: Path) -> None:
    """A failure and a name that stands there twice come in the middle: every row must get its own samples."""
    names = [
        f"{relay.name}:O0",
        f"{relax.name}:default",
        f"{relay.name}:ToMixedPrecision",
        f"{relay.name}:O3",
        f"{relax.name}:schedule-cpu",
        f"{relay.name}:O3",
    ]
    document = short_plans.compare(tiny_network, names, toolchain=relay.name, rounds=4, processes=2)
    rows = document["rows"]
    first, second = ([name for name in names if name.startswith(f"{side.name}:")] for side in (relay, relax))
    assert [row["name"] for row in rows] == [*first, *second]
    assert [side["name"] for side in document["toolchains"]] == [relay.name, relax.name]
    assert document["baseline"] == f"{relay.name}:O3"
    failed, *measured = sorted(rows, key=lambda row: "failure" not in row)
    assert failed["name"] == f"{relay.name}:ToMixedPrecision" and failed["failure"]["kind"] == "wrong_result"
    assert [row["toolchain"] for row in measured] == [relay.name] * 3 + [relax.name] * 2
    samples = [tuple(row["latency_s"]["samples"]) for row in measured]
    assert len(set(samples)) == 5, "every row has its own samples"
    assert {len(row) for row in samples} == {8}, "4 rounds in 2 processes"
    assert len({row["binary"] for row in measured}) == 4, "O3 stands there twice"
    assert all(row["outputs"]["deviation"] <= row["outputs"]["tolerance"] for row in measured)


class FailingEvaluator(SimulatedEvaluator):
    """A compiler that builds nothing."""

    session = SimpleNamespace(dialect=dialect("relay"), toolchain=SimpleNamespace(name="relay"))

    def build(self, state: str, candidate: Candidate, **_: object) -> Failure:
        return Failure("compile_error", "build", "", "no rule for this operator")


def test_a_reference_that_fails_is_named_before_other_toolchains_are_judged_by_it() -> None:
    sides = [Side(FailingEvaluator(Machine(Noise(), 0), {}), ()) for _ in range(2)]  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"The baseline `O3` fails on this network, .*no rule for this operator"):
        _share_reference(sides)


def test_the_papers_protocol_is_for_one_toolchain(relay: Toolchain, relax: Toolchain, tiny_network: Path) -> None:
    with pytest.raises(UserError, match="takes those of one toolchain"):
        short_plans.compare(tiny_network, [f"{relay.name}:O3", f"{relax.name}:default"], protocol="cf22")
