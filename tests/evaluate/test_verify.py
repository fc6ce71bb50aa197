"""The limit of deviation of each candidate, and the class that scores must agree on."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from passsearch.core import (
    TF32_STEP,
    BuildOptions,
    Candidate,
    CheckInputs,
    ErrorBudget,
    Failure,
    ModuleSummary,
    Pipeline,
)
from passsearch.evaluate import Agreement, Applier, Builder, Built, Network, Session, WorkerLimits
from passsearch.evaluate.disk_limit import DiskLimit
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.pool import WorkerPool
from passsearch.evaluate.verification import Verification
from passsearch.evaluate.verify import Allowance, VerifyFact, judge
from passsearch.results import Deviation
from passsearch.store import Fact, Log

OPERATORS = [
    [0, "input", "image", [], [[[1, 3], "float16"]], {}, None],
    [1, "add", "add", [0], [[[1, 3], "float32"]], {}, None],
]
NETWORK = Network("root", {}, ModuleSummary.from_json({"operators": OPERATORS, "results": [1]}))
EXACT, APPROXIMATE, NARROW = (Candidate(Pipeline.parse(name)) for name in ("Fuse", "Guess", "NarrowWeights,Guess"))


class DeviatingBuilder(Builder):
    """Every state builds, and its outputs deviate by the number that is its name."""

    builds = 0

    def _build_after_reference(
        self,
        state: str,
        options: BuildOptions,
        *,
        folder: Path,
        longest_s: float = math.inf,
        deadline_s: float = math.inf,
    ) -> Fact:
        self.builds += 1
        folder.mkdir()
        verified = {"deviation": float(state), "case": 1, "leads": [0.5, 0.3, 0.1], "peak_rss": 0}
        return {"seconds": 1.0, "digest": state, "kernels": "", "bytes": 0, "plan_bytes": 0, **verified}


def builder(log: Log, folder: Path, tolerance: float | None, *, device_kind: str = "cpu") -> DeviatingBuilder:
    """A builder of a session with a tolerance, whose pass `Guess` may change numerics."""

    catalog: Any = SimpleNamespace(approximates=lambda each: "Guess" in str(each.pipeline))

    rules: Any = SimpleNamespace(cannot_run_reason="", limits=WorkerLimits(5.0), reference_steps=())
    rules.catalog, rules.tolerance, rules.model = catalog, tolerance, SimpleNamespace(limit=None)
    rules.device_kind = device_kind
    rules.budget = ErrorBudget(0.1 * tolerance, bound=0.1 * tolerance) if tolerance else None
    rules.has_budget = partial(Session.has_budget, rules)
    rules.tolerated = partial(Session.tolerated, rules)
    rules.deviation_limit = partial(Session.deviation_limit, rules)
    session = cast(Session, rules)
    facts = FactStore(session, log, cache=None, seconds={})
    applier = cast(Applier, SimpleNamespace(graph=SimpleNamespace(root="imported")))
    disk = DiskLimit(folder, log)
    pool = cast(WorkerPool, SimpleNamespace(left_s=lambda: math.inf))
    return DeviatingBuilder(
        session, network=NETWORK, facts=facts, folder=folder, disk=disk, pool=pool, applier=applier, origin={}
    )


@pytest.mark.parametrize(
    ("candidate", "tolerance", "deviation", "passes"),
    [
        (EXACT, None, 1e-5, True),
        (EXACT, None, 1e-3, False),
        (EXACT, 0.01, 1e-3, False),
        (APPROXIMATE, None, 1e-3, False),
        (APPROXIMATE, 0.01, 1e-3, True),
        (APPROXIMATE, 0.01, 0.02, False),
        (NARROW, 0.01, 9e-4, True),
        (NARROW, 0.01, 2e-3, False),
    ],
)
def test_a_tolerance_is_for_passes_that_may_change_numerics(
    candidate: Candidate, tolerance: float | None, deviation: float, passes: bool, tmp_path: Path
) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        outcome = builder(log, tmp_path, tolerance).build(str(deviation), candidate)
    assert isinstance(outcome, Built) is passes
    if isinstance(outcome, Failure):
        assert outcome.kind == "wrong_result" and "is allowed" in outcome.reason


@pytest.mark.parametrize(
    ("text", "device_kind", "deviation", "passes"),
    [
        ('ScheduleGPU{precision="tf32"}', "gpu", 2e-3, True),
        ('ScheduleGPU{precision="tf32"}', "gpu", 0.02, False),
        ('ScheduleGPU{precision="tf32"}', "cpu", 2e-3, False),
        ('ScheduleGPU{precision="float32"}', "gpu", 2e-3, False),
    ],
)
def test_a_pipeline_in_tf32_has_the_limit_of_its_rounding_on_a_gpu(
    text: str, device_kind: str, deviation: float, passes: bool, tmp_path: Path
) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        made = builder(log, tmp_path, None, device_kind=device_kind)
        outcome = made.build(str(deviation), Candidate(Pipeline.parse(text)))
    assert isinstance(outcome, Built) is passes


def test_one_build_is_judged_for_each_candidate_and_built_once(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log:
        first = builder(log, tmp_path, 0.01)
        assert isinstance(first.build("0.001", EXACT), Failure)
        assert not any(tmp_path.glob("0.001*")), "a refused artifact takes no room"
        accepted = first.build("0.001", APPROXIMATE)
        assert isinstance(accepted, Built) and accepted.agreement.limit == 0.01
        assert isinstance(first.restore(accepted), Built) and accepted.folder.exists()
    with Log(tmp_path / "log.jsonl") as log:
        resumed = builder(log, tmp_path, 0.01)
        outcomes = [resumed.build("0.001", candidate) for candidate in (APPROXIMATE, EXACT)]
    assert [type(outcome) for outcome in outcomes] == [Built, Failure] and resumed.builds == 0


@pytest.mark.parametrize(
    ("leads", "agreement"),
    [
        ((0.5, 0.3, 0.1), 1.0),
        ((0.5, -0.009), 1.0),
        ((-0.009, 0.001), None),
        ((), None),
        (None, None),
    ],
    ids=["agrees", "a near tie is not counted", "near ties only", "no finite scores", "no scores"],
)
def test_top1_agreement_has_a_value_or_a_reason(leads: tuple[float, ...] | None, agreement: float | None) -> None:
    outcome = judge(VerifyFact(0.006, 1, leads), Allowance(0.01))
    assert isinstance(outcome, Agreement) and outcome.top1_agreement == agreement
    assert bool(outcome.stated.unavailable) is (agreement is None)


def test_another_class_is_wrong_however_near_the_scores() -> None:
    outcome = judge(VerifyFact(0.006, 1, (0.5, -0.011)), Allowance(0.01))
    assert isinstance(outcome, Failure) and outcome.kind == "wrong_result"
    assert "1 of 2" in outcome.reason and "class" in outcome.reason


@pytest.mark.parametrize(
    ("change", "deviation", "passes"),
    [(0.0126, 0.083, True), (0.0126, 0.25, False), (1e-7, 0.033, False), (1e-7, 1e-5, True), (math.nan, 0.033, False)],
    ids=["rounding of an unstable case", "more than rounding", "stable reference", "within the limit", "no change"],
)
def test_an_edge_case_allows_what_rounding_changes_in_the_reference(
    change: float, deviation: float, passes: bool
) -> None:
    changes = {} if math.isnan(change) else {"large": change}
    deviations = {"1": 3e-6, "large": deviation}
    outcome = judge(VerifyFact(deviation, "large", deviations=deviations, changes=changes), Allowance(1.2e-4))
    assert isinstance(outcome, Agreement) is passes
    if isinstance(outcome, Failure):
        assert "inputs `large`" in outcome.reason and f"by {deviation:.2g}" in outcome.reason
    elif change > 1e-4:
        assert outcome.deviation == 3e-6, "an unstable case is stated apart"
        assert outcome.stated.unstable == {"large": Deviation(deviation, 16 * change)}


@pytest.mark.parametrize(("step", "passes"), [(TF32_STEP, True), (1.0, False)])
def test_an_edge_case_allows_what_coarser_rounding_changes(step: float, passes: bool) -> None:
    fact = VerifyFact(0.03, "large", deviations={"large": 0.03}, changes={"large": 1e-6})
    assert isinstance(judge(fact, Allowance(0.0156, step=step)), Agreement) is passes


def test_random_inputs_have_the_limit_however_unstable_an_edge_case_is() -> None:
    deviations, changes = {"1": 0.01, "large": 0.02}, {"large": 0.3}
    outcome = judge(VerifyFact(0.02, "large", deviations=deviations, changes=changes), Allowance(1.2e-4))
    assert isinstance(outcome, Failure) and "seed 1" in outcome.reason


def test_outputs_that_are_not_finite_are_refused_in_every_case() -> None:
    changes = {"large": 0.3}
    for deviation in (math.inf, math.nan):
        fact = VerifyFact(deviation, "large", deviations={"1": 0.0, "large": deviation}, changes=changes)
        assert isinstance(judge(fact, Allowance(1.2e-4)), Failure)


def test_an_edge_case_on_which_rounding_changes_all_of_the_reference_says_nothing() -> None:
    deviations, changes = {"1": 1e-6, "large": 0.89}, {"large": 0.87}
    outcome = judge(VerifyFact(0.89, "large", deviations=deviations, changes=changes), Allowance(1.2e-4))
    assert isinstance(outcome, Agreement) and outcome.stated.unstable == {"large": Deviation(0.89, 2.0)}


def test_outputs_of_zeros_are_wrong_as_long_as_the_reference_says_anything() -> None:
    fact = VerifyFact(1.0, "large", deviations={"1": 0.0, "large": 1.0}, changes={"large": 0.3})
    outcome = judge(fact, Allowance(1.2e-4))
    assert isinstance(outcome, Failure) and "0.5 is allowed" in outcome.reason


@pytest.mark.parametrize(
    ("found", "allowance", "reason"),
    [
        ({"factor": 0.05}, Allowance(0.0625), "all values by one factor, 0.05 off"),
        ({"factor": 0.05}, Allowance(0.0625, is_tolerated=True), ""),
        ({"mean": 0.05, "mean_change": 1e-4}, Allowance(0.0625), "of their mean magnitude on average"),
        ({"mean": 0.05, "mean_change": 0.02}, Allowance(0.0625), ""),
        ({"mean": 0.05}, Allowance(0.0625), ""),
        (
            {"slice": 1.0, "slice_of": "slice 4 of axis 1 of output 0"},
            Allowance(1.2e-4),
            "slice 4 of axis 1 of output 0",
        ),
        ({"slice": 1e-3}, Allowance(1.2e-4), ""),
        ({"scaled": 1e-3, "scaled_of": "slice 4 of axis 1 of output 0"}, Allowance(1.2e-4), "several scales"),
        ({"scaled": 1e-3}, Allowance(1e-2), ""),
        ({"mean": 4e-3, "mean_change": 1e-4}, Allowance(0.0625, plain_mean=1e-3), "on average; 0.002 is allowed"),
        ({"mean": 4e-3, "mean_change": 1e-4}, Allowance(0.0625, plain_mean=3e-3), ""),
        ({"factor": 0.01}, Allowance(0.0625, plain_mean=3e-3), "all values by one factor, 0.01 off; 0.006 is allowed"),
        ({"special": {"nan": {"lost": 3, "spread": 0}}}, Allowance(1.2e-4), "3 values are NaN in the reference only"),
    ],
)
def test_finer_comparisons_refuse_what_the_largest_deviation_hides(
    found: dict[str, Any], allowance: Allowance, reason: str
) -> None:
    fact = {"deviation": 0.0, "case": 1, "deviations": {"1": 0.0}, "leads": None, **found}
    outcome = judge(VerifyFact.from_fact(fact), allowance)
    assert isinstance(outcome, Failure) == bool(reason)
    if isinstance(outcome, Failure):
        assert reason in outcome.reason and outcome.kind == "wrong_result"


def test_dropped_values_of_a_candidate_that_may_change_numerics_are_stated() -> None:
    special = {"nan": {"lost": 3, "spread": 0}, "inf": {"lost": 0, "spread": 2}}
    fact = {"deviation": 0.0, "case": 1, "deviations": {"1": 0.0}, "leads": None, "special": special}
    outcome = judge(VerifyFact.from_fact(fact), Allowance(1.2e-4, may_drop=True))
    assert isinstance(outcome, Agreement) and (outcome.dropped, outcome.spread) == ({"nan": 3}, {"inf": 2})
    assert outcome.stated.dropped == {"nan": 3}


def test_no_candidate_is_refused_for_what_the_import_drops() -> None:
    special = {"nan": {"lost": 3, "spread": 0}}
    fact = {"deviation": 0.0, "case": 1, "deviations": {"1": 0.0}, "leads": None, "special": special}
    outcome = judge(VerifyFact.from_fact(fact), Allowance(1.2e-4, lost_nan=3))
    assert isinstance(outcome, Agreement) and outcome.dropped_by_import and outcome.dropped == {"nan": 3}
    assert isinstance(judge(VerifyFact.from_fact(fact), Allowance(1.2e-4, lost_nan=2)), Failure)


def test_a_budget_allows_inputs_on_which_it_did_not_decide_twice_as_much() -> None:
    budget = Allowance(0.1, is_tolerated=True, is_budget=True)
    for case, deviation, is_right in (
        (1, 0.11, False),
        (101, 0.19, True),
        (101, 0.21, False),
        ("sample0", 0.11, False),
    ):
        found = VerifyFact(deviation, case, mean_change=0.0)
        assert isinstance(judge(found, budget), Agreement) == is_right, (case, deviation)
    means = VerifyFact(0.0, 101, deviations={"101": 0.0}, mean=0.15, mean_change=0.0)
    assert isinstance(judge(means, budget), Agreement)
    assert isinstance(judge(replace(means, deviations={"1": 0.0}), budget), Failure)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (ErrorBudget(0.1, "top1"), "30 % of the rows have another class than the reference's; 10 % is allowed"),
        (ErrorBudget(0.3, "top1"), ""),
        (ErrorBudget(0.05, "accuracy"), "10 % fewer of the rows are classified right; 5 % is allowed"),
        (ErrorBudget(0.1, "accuracy"), ""),
    ],
)
def test_a_budget_of_classes_judges_samples_and_inputs_that_decided(budget: ErrorBudget, reason: str) -> None:
    allowance = Allowance(1.0, is_tolerated=True, is_budget=True, classes=budget)
    counts = {"rows": 20, "differing": 6, "right": 14, "expected_right": 16}
    for deviations in ({"1": 0.2}, {"sample0": 0.2, "101": 0.2}):
        # Leads of another class are what the budget is for.
        found = VerifyFact(0.2, 1, (-1.5,), deviations=deviations, mean_change=0.0, classes=counts)
        judged = judge(found, allowance)
        assert (judged.reason if isinstance(judged, Failure) else "") == (
            f"outputs deviate: {reason}" if reason else ""
        )
    assert isinstance(judge(VerifyFact(0.2, 101, mean_change=0.0, classes=counts), allowance), Agreement)


@pytest.mark.parametrize(
    ("bits", "reason"),
    [
        ({"1": "a", "2": "b", "3": "c"}, ""),
        ({"1": "a"}, ""),
        ({"1": "a", "2": "x"}, "other bits on 1 of 2 inputs"),
        ({}, "bits are unknown"),
    ],
)
def test_right_outputs_with_other_bits_are_a_failure_of_their_own(bits: dict[str, str], reason: str) -> None:
    found = VerifyFact(1e-7, 1, bits=bits)
    outcome = judge(found, Allowance(1e-4, bits={"1": "a", "2": "b"}))
    assert isinstance(judge(found, Allowance(1e-4)), Agreement)
    assert isinstance(outcome, Failure) is bool(reason)
    if isinstance(outcome, Failure):
        assert outcome.kind == "other_bits" and reason in outcome.reason
    wrong = judge(replace(found, deviation=1e-2), Allowance(1e-4, bits={"1": "a", "2": "b"}))
    assert isinstance(wrong, Failure) and wrong.kind == "wrong_result"


def test_the_check_of_a_deployment_runs_no_inference_for_its_bits() -> None:
    made: Any = Verification.__new__(Verification)
    made._session = SimpleNamespace(device="cpu", limits=SimpleNamespace(timeout_s=60.0), output_cases=(1, 2))
    made._network = SimpleNamespace(check=CheckInputs({}), request=dict)
    made._file, made.source = Path("missing"), SimpleNamespace(key="")
    made._pool = Mock(timer=None, ask=Mock(return_value={"failure": {}}))
    made.compare(Path("built"), is_baseline=False)
    made.compare(Path("built"), is_baseline=False, cases=[4])
    assert [call.kwargs["request"]["with_bits"] for call in made._pool.ask.call_args_list] == [True, False]


def test_ordinary_inputs_may_deviate_by_more_where_one_rounding_moves_outputs() -> None:
    moved = {"1": (0.12, 0.26), "2": (0.10, 0.26), "large": (0.3, 0.5)}
    agreement = Agreement(1e-6, 0.06, unstable=moved)
    assert (agreement.usual_deviation, agreement.usual_limit) == (0.12, 0.26)
    assert (Agreement(1e-6, 0.06).usual_deviation, Agreement(1e-6, 0.06).usual_limit) == (1e-6, 0.06)
    assert Agreement(None, 0.06).usual_deviation is None
