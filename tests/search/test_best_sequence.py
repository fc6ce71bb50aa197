"""The best of the catalog's sequences among the candidates of a search."""

from dataclasses import replace
from pathlib import Path

import pytest

from passsearch.core import BuildOptions, Candidate, Interval
from passsearch.evaluate import Built
from passsearch.measure import Ratio
from passsearch.objectives import parse_objective, with_outcome
from passsearch.results import Verdict
from passsearch.search import RunOptions, Scored, Scoring
from passsearch.search.best_sequence import BestSequence, best_sequence
from passsearch.search.composition import COMPOSED
from passsearch.search.verdict import verdict_of

BUILD = BuildOptions(opt_level=0)


def scored(name: str, gain: float, key: str = "") -> Scored:
    key = key or name
    built = Built(key, BUILD, key, Path(key), key, key, 1.0, 0, 0, 0)
    return Scored(Candidate(build=BUILD, name=name), built, Ratio(gain, Interval(gain, gain)), (1.0,), 1.0, 0.0)


BASELINE, SLOW, FAST = scored("O3", 1.0), scored("AS-0", 1.1), scored("AS-1", 1.2)
CANDIDATES = [BASELINE, SLOW, FAST, scored("O4", 1.3), scored(COMPOSED, 1.5), scored("", 1.4, "explored")]


def best(candidates: list[Scored], objective: str = "throughput") -> BestSequence | None:
    scoring = Scoring(RunOptions((parse_objective(objective),), 40), BASELINE)
    return best_sequence(candidates, scoring, levels=("O3", "O4"))


def test_only_sequences_of_the_catalog_count() -> None:
    assert best(CANDIDATES) == BestSequence(FAST, 2)
    assert best([BASELINE, *CANDIDATES[3:]]) is None


def test_a_later_measurement_replaces_an_earlier_one() -> None:
    found = best([*CANDIDATES, replace(SLOW, ratio=Ratio(1.25, Interval(1.2, 1.3)))])
    assert found is not None and found.scored.candidate.name == "AS-0" and found.measured == 2


@pytest.mark.parametrize(
    ("objective", "winner", "interrupted", "reason"),
    [
        ("throughput", BASELINE, False, "no candidate is left beside the baseline"),
        ("compile_time", BASELINE, False, "no candidate with 0.98 of its throughput is left beside the baseline"),
        ("throughput", BASELINE, True, "no fresh compile was made"),
        ("throughput", FAST, False, "no fresh compile was made"),
    ],
)
def test_a_verdict_without_a_fresh_compile_says_why(
    objective: str, winner: Scored, interrupted: bool, reason: str
) -> None:
    scoring = Scoring(RunOptions((parse_objective(objective),), 40, repetitions=3), BASELINE)
    assert verdict_of(scoring, winner, confirmation=None, interrupted=interrupted).reason == reason


@pytest.mark.parametrize("objective", ["compile_time", "energy"])
def test_where_speed_is_not_the_objective_there_is_none(objective: str) -> None:
    assert best(CANDIDATES, objective) is None


def test_a_sequence_that_is_slower_than_the_baseline_is_no_rival() -> None:
    assert best([BASELINE, scored("AS-0", 0.9)]) is None


def test_a_sequence_is_compared_by_its_binary() -> None:
    found = BestSequence(FAST, 1)
    assert found.is_same_binary_as(scored("", 1.2, "AS-1")) and not found.is_same_binary_as(SLOW)


def test_the_reason_of_an_undecided_verdict_says_what_is_undecided() -> None:
    plain = {"confirmed": True, "ratio": 1.1, "reason": "no significant improvement"}
    undecided = with_outcome(Verdict(**plain, interval=(0.9, 1.3)))  # type: ignore[arg-type]
    assert undecided.outcome == "undecided"
    assert undecided.reason == "undecided: a gain in throughput is possible, and none is certain"
    no_gain = with_outcome(Verdict(**plain, interval=(0.99, 1.01)))  # type: ignore[arg-type]
    assert (no_gain.outcome, no_gain.reason) == ("no gain", "no significant improvement")
