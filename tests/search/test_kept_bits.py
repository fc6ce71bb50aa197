"""A search that keeps the bits of a reference, without a compiler."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from passsearch.catalog import load
from passsearch.core import OTHER_BITS, Candidate, Failure, Pipeline, SameBits, TimeLimit
from passsearch.errors import TimeTooShort
from passsearch.search import BaselineFailed, Search, study
from passsearch.search.recommendation import Recommendation
from passsearch.search.records import Counts, SearchOutcome
from passsearch.search.same_bits import BitsKeeper

BEGIN = Pipeline.parse("ScheduleCPU")
REFUSED = Failure(OTHER_BITS, "measure", "", "outputs are right, and have other bits on 1 of 11 inputs")


def scored(name: str, **bits: str) -> Any:
    """A candidate with the bits of its outputs."""
    built = SimpleNamespace(key=name, agreement=SimpleNamespace(bits=bits), run_s=2.0)
    return SimpleNamespace(candidate=Candidate(name=name), built=built)


@pytest.mark.parametrize("is_refused", [True, False])
def test_what_regions_give_other_bits_is_composed_again_of_kernels_alone(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    regional: list[bool] = []

    class Composer:
        def __init__(self, _: object, entries: Any, **__: object) -> None:
            regional.append(any(entry.regional_parameter for entry in entries))

        def compose(self, _: Pipeline) -> Any:
            return SimpleNamespace(
                pipeline=Pipeline.parse(f"CutFusion,{BEGIN}" if regional[-1] else f"{BEGIN},{BEGIN}")
            )

    monkeypatch.setattr(study, "Composer", Composer)
    search: Any = Search.__new__(Search)
    best = SimpleNamespace(candidate=Candidate(BEGIN), compile_s=1.0)
    search._best_with_kernels, search._is_enough, search._begin_phase = lambda: best, lambda: False, lambda _: None
    search._run_time_limit = search._time_limit = TimeLimit()
    search._profiler, search._precision = object(), None
    search._space = SimpleNamespace(entries=tuple(load("relax").entries.values()))
    outcomes = {True: REFUSED if is_refused else scored("cut"), False: scored("kernels")}
    search.evaluation = SimpleNamespace(evaluate=lambda candidate: outcomes["CutFusion" in str(candidate)])
    evaluated = search._evaluate_composed()
    assert regional == ([True, False] if is_refused else [True])
    assert [found for _, found in evaluated] == ([REFUSED, outcomes[False]] if is_refused else [outcomes[True]])


def keeper(**bits: str) -> BitsKeeper:
    """A keeper of these bits, which the candidate `reference` has."""
    verification = SimpleNamespace(bits=bits or None, refused={"Fast": 1.0, "Slow": 4.0, "Unknown": None})
    session = SimpleNamespace(same_bits=SameBits("recommended", None))
    evaluator: Any = SimpleNamespace(builder=SimpleNamespace(verification=verification), session=session)
    made = BitsKeeper(evaluator, Candidate(name="reference"))
    made._built = scored("reference", **bits).built
    return made


def test_a_baseline_with_other_bits_is_never_recommended() -> None:
    own, baseline, equal = scored("reference", a="1"), scored("default", a="2"), scored("other", a="1")
    kept = keeper(a="1").kept(Recommendation(baseline, None), {"reference": own})
    assert kept.best is own and kept.rejected is not None and "default has other bits" in kept.rejected.reason
    assert keeper(a="1").kept(Recommendation(equal, None), {}).best is equal
    assert keeper().kept(Recommendation(baseline, None), {}).best is baseline, "nothing is kept yet"
    with pytest.raises(TimeTooShort, match="before a candidate with the bits"):
        keeper(a="1").kept(Recommendation(baseline, None), {})


def test_a_baseline_with_other_bits_is_on_no_front() -> None:
    rows = {
        "reference": scored("reference", a="1"),
        "default": scored("default", a="2"),
        "again": scored("again", a="1"),
    }
    outcome: Any = SearchOutcome(rows["default"], rows, Counts(), cast(Any, None), unoffered=frozenset({"again"}))
    assert keeper(a="1").offered(outcome).unoffered == {"default", "again"}


def test_a_search_whose_baseline_fails_at_first_admits_no_bits() -> None:
    kept = keeper()
    kept._evaluator.session.dialect = SimpleNamespace(baseline=Candidate())  # type: ignore[misc]
    kept._evaluator.build_candidate = lambda _: Failure("infra", "build", "", "killed")  # type: ignore[method-assign]
    with pytest.raises(BaselineFailed, match="killed"):
        kept.require()


def test_what_bits_cost_is_read_from_the_checks_of_what_was_refused() -> None:
    stated = keeper(a="1").stated(scored("reference", a="1"))
    assert (stated.refused, stated.fastest, stated.check_ratio, stated.ratio) == (3, "Fast", 2.0, None)
    assert [*stated.unavailable] == ["ratio"]
