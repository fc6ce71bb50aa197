"""A finished run is signed off by its own record and refused by a false one."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import short_plans

from passsearch.cli import main
from passsearch.errors import UserError
from passsearch.toolchain import Toolchain

CHEAP = ["SimplifyInference", "FuseOps", "DeadCodeElimination"]


@pytest.fixture(scope="module")
def finished(relay: Toolchain, small_network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("audited") / "run"
    short_plans.tune(small_network, toolchain=relay.name, trials=3, confirm=0, passes=CHEAP, out=run)
    return run


@pytest.fixture
def changed(finished: Path) -> Iterator[Callable[..., None]]:
    original = (finished / "result.json").read_text()

    def change(**parts: Any) -> None:
        document = json.loads(original)
        for key, value in parts.items():
            document[key] |= value
        (finished / "result.json").write_text(json.dumps(document))

    yield change
    (finished / "result.json").write_text(original)


def test_a_run_agrees_with_its_own_record(finished: Path) -> None:
    document = short_plans.audit(finished, confirm=2)
    assert document["signed_off"], document["checks"]
    names = [check["name"] for check in document["checks"]]
    assert names == ["compiler", "IR", "outputs", "recorded outputs", "binary", "measurement"]
    assert "byte for byte" in document["checks"][4]["detail"]
    assert document["ratios"]["throughput"]["ratio"] > 0


def test_a_win_that_is_not_seen_again_is_refused(finished: Path, changed: Callable[..., None]) -> None:
    changed(verdict={"improved": True, "ratio": 50.0, "interval": [40.0, 60.0], "objective": "throughput"})
    document = short_plans.audit(finished, confirm=2)
    assert not document["signed_off"]
    assert document["checks"][-1]["name"] == "measurement" and not document["checks"][-1]["ok"]


def test_another_ir_is_refused_with_the_pass_that_made_it(finished: Path, changed: Callable[..., None]) -> None:
    recorded = json.loads((finished / "result.json").read_text())
    states = recorded["deployment"]["states"]
    changed(deployment={"states": [*states[:-1], "0123456789abcdef"]})
    document = short_plans.audit(finished, confirm=2)
    last = document["checks"][-1]
    assert not document["signed_off"] and last["name"] == "IR" and "0123456789abcdef" in last["detail"]
    assert document["ratios"] is None, "what is refused is not measured"


def test_another_compiler_is_refused_before_anything_is_built(finished: Path, changed: Callable[..., None]) -> None:
    changed(toolchain={"tvm_commit": "another"})
    document = short_plans.audit(finished)
    assert [check["name"] for check in document["checks"]] == ["compiler"] and not document["signed_off"]
    assert main(["audit", str(finished)]) == 1


def test_too_few_repetitions_are_refused(finished: Path) -> None:
    with pytest.raises(UserError, match="got 1"):
        short_plans.audit(finished, confirm=1)


def test_a_run_without_a_winner_cannot_be_audited(finished: Path) -> None:
    (finished / "network.json").rename(finished / "elsewhere.json")
    try:
        with pytest.raises(UserError, match="is gone"):
            short_plans.audit(finished)
    finally:
        (finished / "elsewhere.json").rename(finished / "network.json")
