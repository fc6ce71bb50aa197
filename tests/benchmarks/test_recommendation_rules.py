"""The rules that a recommendation is tested against."""

from dataclasses import replace

import pytest

from benchmarks.search import recommendation_test
from benchmarks.search.recommendation_test import by_catalog, by_class, by_tree, most_frequent, nearest, one_for_all
from passsearch.results import CorpusNetwork


def network(family: str, classes: str, features: str, **seconds: float) -> CorpusNetwork:
    return CorpusNetwork(
        family=family,
        date="",
        code="",
        inputs={},
        classes=tuple(classes.split()),
        features=dict.fromkeys(features.split(), 5),
        order=tuple(name for name in seconds if name != "default"),
        same={},
        failures={},
        rounds_s={name: (value,) for name, value in seconds.items()},
        foreign_percent=None,
    )


KNOWN = {
    **{f"r{n}": network(f"r{n}", "RN", "convolution", first=2.0, nhwc=1.0, default=9.0) for n in range(4)},
    **{f"b{n}": network(f"b{n}", "BR", "attention", first=1.0, nhwc=1.1, default=9.0) for n in range(3)},
}
NEW = network("new", "BR", "attention", nhwc=1.2, first=1.0, default=9.0)


def test_rules_choose_by_what_they_know() -> None:
    assert by_catalog(KNOWN, NEW) == one_for_all(KNOWN, NEW) == "nhwc"
    assert most_frequent(KNOWN, NEW) == by_class(KNOWN, NEW) == nearest(KNOWN, NEW) == by_tree(KNOWN, NEW) == "first"


def test_a_rule_is_judged_by_the_best_known_throughput() -> None:
    tested = recommendation_test.judge_rule({**KNOWN, "new": NEW}, by_catalog)
    assert tested["reach"]["new"] == pytest.approx(1 / 1.2) and tested["reach"]["r0"] == pytest.approx(0.5)
    assert tested["worst"] == pytest.approx(0.5) and tested["slower_than"]["default"] == []


def test_a_sequence_that_is_slower_than_the_default_is_named() -> None:
    slow = replace(NEW, rounds_s={**NEW.rounds_s, "nhwc": (10.0,)})
    assert recommendation_test.judge_rule({"slow": slow}, by_catalog)["slower_than"]["default"] == ["slow"]
