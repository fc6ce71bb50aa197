"""Which deviation of outputs is whose to have."""

from pathlib import Path
from typing import Any

import pytest

from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import Built, Evaluator, Subject
from passsearch.evaluate.verify import Agreement, judge
from passsearch.store import Log

OPERATORS = [
    [0, "input", "image", [], [[[1, 3], "float16"]], {}, None],
    [1, "add", "add", [0], [[[1, 3], "float32"]], {}, None],
]
EXACT, APPROXIMATE = (Candidate(Pipeline.parse(name)) for name in ("Fuse", "Guess"))


class Deviating(Evaluator):
    """Every state builds, and its outputs deviate as its name says."""

    builds = 0

    def _load(self) -> dict[str, Any]:
        return {"inputs": {}, "summary": {"operators": OPERATORS, "results": [1]}, "state": "root"}

    def _build(self, state: str, options: BuildOptions, *, folder: Path) -> dict[str, Any]:
        self.builds += 1
        folder.mkdir()
        verified = {"deviation": float(state), "case": "large", "leads": [0.5, 0.3, 0.1]}
        return {"seconds": 1.0, "digest": state, "kernels": "", "bytes": 0, "plan_bytes": 0, "peak_rss": 0, **verified}


def evaluator(log: Log, folder: Path, tolerance: float | None) -> Deviating:
    def start(_: int) -> Any:
        raise ChildProcessError

    def approximates(candidate: Candidate) -> bool:
        return "Guess" in str(candidate.pipeline)

    return Deviating(Subject({}, {}, start, "cpu", 1, approximates, tolerance, 5.0), log=log, artifacts=folder)


@pytest.mark.parametrize(
    ("candidate", "tolerance", "deviation", "passes"),
    [
        (EXACT, None, 1e-5, True),
        (EXACT, None, 1e-3, False),
        (EXACT, 0.01, 1e-3, False),
        (APPROXIMATE, None, 1e-3, False),
        (APPROXIMATE, 0.01, 1e-3, True),
        (APPROXIMATE, 0.01, 0.02, False),
    ],
)
def test_a_tolerance_is_for_passes_that_may_change_numerics(
    candidate: Candidate, tolerance: float | None, deviation: float, passes: bool, tmp_path: Path
) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        found = evaluator(log, tmp_path, tolerance).built(str(deviation), candidate)
    assert isinstance(found, Built) is passes
    if isinstance(found, Failure):
        assert found.kind == "wrong_result" and "is allowed" in found.reason


def test_one_build_is_judged_for_each_candidate_and_built_once(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        asked = evaluator(log, tmp_path, 0.01)
        assert isinstance(asked.built("0.001", EXACT), Failure)
        assert not any(tmp_path.glob("0.001*")), "what is refused takes no room"
        accepted = asked.built("0.001", APPROXIMATE)
        assert isinstance(accepted, Built) and accepted.agreement.limit == 0.01
        assert isinstance(asked.restore(accepted), Built) and accepted.folder.exists()
    with Log(tmp_path / "log.jsonl") as log:
        again = evaluator(log, tmp_path, 0.01)
        outcomes = [again.built("0.001", each) for each in (APPROXIMATE, EXACT)]
    assert [type(each) for each in outcomes] == [Built, Failure] and again.builds == 0


@pytest.mark.parametrize(
    ("leads", "agreement"),
    [
        ([0.5, 0.3, 0.1], 1.0),
        ([0.5, -0.009], 1.0),
        ([-0.009, 0.001], None),
        ([], None),
        (None, None),
    ],
    ids=["agrees", "a near tie is not counted", "near ties only", "no finite scores", "no scores"],
)
def test_top1_agreement_is_told_or_why_not(leads: list[float] | None, agreement: float | None) -> None:
    found = judge({"deviation": 0.006, "case": "1", "leads": leads}, 0.01)
    assert isinstance(found, Agreement) and found.top1_agreement == agreement
    assert bool(found.to_json()["unavailable"]) is (agreement is None)


def test_another_class_is_wrong_however_near_the_scores() -> None:
    found = judge({"deviation": 0.006, "case": "1", "leads": [0.5, -0.011]}, 0.01)
    assert isinstance(found, Failure) and found.kind == "wrong_result"
    assert "1 of 2" in found.reason and "class" in found.reason
