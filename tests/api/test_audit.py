"""A finished run is signed off where its record is true, and refused where the record was changed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import short_plans
from jobs import MOSTLY_RELAX

import passsearch
from passsearch.cli import main
from passsearch.errors import UserError


@pytest.fixture
def run(tuned: passsearch.TuneResult) -> Path:
    """The folder of a finished run."""
    return tuned.run


@pytest.fixture
def change(run: Path) -> Iterator[Callable[..., None]]:
    """Return a function that changes objects of the run's record; the record is restored after the test."""
    original = (run / "result.json").read_text()

    def write(**objects: Any) -> None:
        document = json.loads(original)
        for key, value in objects.items():
            document[key] = {**(document[key] or {}), **value}
        (run / "result.json").write_text(json.dumps(document))

    yield write
    (run / "result.json").write_text(original)


# Beside other tests, one short measurement of a tiny network may contradict the other.
NO_CLAIM = {"improved": False, "interval": None}


@MOSTLY_RELAX
def test_a_run_agrees_with_its_own_record(run: Path) -> None:
    document = short_plans.audit(run, confirm=2)
    assert document["signed_off"], document["checks"]
    names = [check["name"] for check in document["checks"]]
    assert names == ["compiler", "IR", "outputs", "recorded outputs", "bits", "binary", "measurement"]
    assert "byte for byte" in document["checks"][5]["detail"]
    assert document["ratios"]["throughput"]["ratio"] > 0


# The measurement of an audit starts six processes, so the cheaper dialect has to do.
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_win_that_is_not_measured_again_is_refused(run: Path, change: Callable[..., None]) -> None:
    change(verdict={"improved": True, "ratio": 50.0, "interval": [40.0, 60.0], "objective": "throughput"})
    document = short_plans.audit(run, confirm=2)
    assert not document["signed_off"]
    assert [check["name"] for check in document["checks"] if not check["ok"]] == ["measurement"]


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
@pytest.mark.parametrize(
    ("improved", "reason"),
    [(True, "the gain is not seen again"), (False, "below the claim")],
    ids=["a gain", "no gain"],
)
def test_a_gain_over_a_sequence_that_is_not_measured_again_is_refused(
    run: Path, change: Callable[..., None], improved: bool, reason: str
) -> None:
    best = json.loads((run / "result.json").read_text())["best"]
    candidate = {**best, "name": "AS-2", "of": 3, "is_best": False}
    gain = {"ratio": 50.0, "interval": [40.0, 60.0]}
    change(sequence={**candidate, "improved": improved, "gain": gain}, verdict=NO_CLAIM)
    document = short_plans.audit(run, confirm=2)
    refused = [check for check in document["checks"] if not check["ok"]]
    assert [check["name"] for check in refused] == ["gain over the catalog"]
    assert f"of the throughput of AS-2, claimed 50.000 [40.000, 60.000]: {reason}" in refused[0]["detail"]
    assert document["sequence"]["gain"]["ratio"] == pytest.approx(1, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_sequence_over_which_nothing_is_claimed_is_timed_too(run: Path, change: Callable[..., None]) -> None:
    best = json.loads((run / "result.json").read_text())["best"]
    gain = {"ratio": 50.0, "interval": None}
    change(sequence={**best, "name": "AS-2", "of": 3, "is_best": False, "improved": False, "gain": gain})
    audit = short_plans.audit(run, confirm=2)
    [check] = [check for check in audit["checks"] if check["name"] == "gain over the catalog"]
    assert check["ok"] and "claimed nothing: the search read 50.000" in check["detail"]
    unknown = {**best, "name": "AS-2", "pipeline": "OfAnotherCatalog", "of": 3, "is_best": False, "improved": False}
    change(sequence={**unknown, "gain": gain})
    checks = short_plans.audit(run, confirm=2)["checks"]
    assert checks[-1]["name"] == "gain over the catalog" and "in no catalog" in checks[-1]["detail"]
    assert checks[-1]["ok"], "nothing is claimed, so nothing is refused"


@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_folder_that_only_the_record_names_is_not_trusted(run: Path, change: Callable[..., None]) -> None:
    best = json.loads((run / "result.json").read_text())["best"]
    foreign = 'MetaScheduleApplyDatabase{work_dir="/tmp/foreign"}'
    gain = {"gain": {"ratio": 1.1, "interval": [1.0, 1.2]}, "improved": False}
    change(sequence={**best, "name": "AS-2", "of": 3, "is_best": False, **gain, "pipeline": foreign})
    with pytest.raises(UserError, match="uses the folder `/tmp/foreign`"):
        short_plans.audit(run, confirm=2)


@pytest.mark.slow
@pytest.mark.parametrize("job", ["relax"], indirect=True)
def test_a_sequence_that_only_the_record_names_is_not_lost(run: Path, change: Callable[..., None]) -> None:
    best = json.loads((run / "result.json").read_text())["best"]
    gain = {"gain": {"ratio": 1.1, "interval": [1.0, 1.2]}, "improved": False}
    claim = {**best, "name": "AS-2", "of": 3, "is_best": False, **gain}
    change(sequence={**claim, "pipeline": "OfAnotherCatalog"}, verdict=NO_CLAIM)
    refused = [check for check in short_plans.audit(run, confirm=2)["checks"] if not check["ok"]]
    assert [check["name"] for check in refused] == ["gain over the catalog"]
    assert "it is in no catalog of this call" in refused[0]["detail"]


@MOSTLY_RELAX
def test_another_ir_is_refused_with_the_pass_that_made_it(run: Path, change: Callable[..., None]) -> None:
    recorded = json.loads((run / "result.json").read_text())
    change(deployment={"states": [*recorded["deployment"]["states"][:-1], "0123456789abcdef"]})
    document = short_plans.audit(run, confirm=2)
    last = document["checks"][-1]
    assert not document["signed_off"] and last["name"] == "IR" and "0123456789abcdef" in last["detail"]
    assert document["ratios"] is None, "a refused run is not measured"


@MOSTLY_RELAX
def test_another_compiler_is_refused_before_anything_is_built(run: Path, change: Callable[..., None]) -> None:
    change(toolchain={"tvm_commit": "another"})
    document = short_plans.audit(run)
    assert [check["name"] for check in document["checks"]] == ["compiler"] and not document["signed_off"]
    assert main(["audit", str(run)]) == 1


@MOSTLY_RELAX
def test_too_few_repetitions_are_refused(run: Path) -> None:
    with pytest.raises(UserError, match="got 1"):
        short_plans.audit(run, confirm=1)


@MOSTLY_RELAX
def test_a_run_without_its_network_cannot_be_audited(run: Path) -> None:
    (run / "network.json").rename(run / "elsewhere.json")
    try:
        with pytest.raises(UserError, match="is gone"):
            short_plans.audit(run)
    finally:
        (run / "elsewhere.json").rename(run / "network.json")
