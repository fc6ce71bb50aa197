"""What the corpus recommends, on corpora that are written out."""

import math
from dataclasses import replace

import pytest

from passsearch.results import Compiler, Corpus, CorpusNetwork, CorpusProcessor, CorpusSearch, Device, StatedRatio
from passsearch.search.corpus_recommendation import (
    advise,
    evidence,
    expected_gain,
    order_by_nearest,
    search_bound,
    search_gains,
)

ZEN, SKYLAKE = "llvm -mcpu=znver2", "llvm -mcpu=skylake-avx512"


def network(family: str, classes: str = "RN", **seconds: float) -> CorpusNetwork:
    """Return a network with the seconds of pipelines; underscores stand for hyphens."""
    rounds = {name.replace("_", "-"): (value, 1.1 * value) for name, value in seconds.items()}
    return CorpusNetwork(
        family=family,
        date="2026-11-29",
        code="",
        inputs={},
        classes=tuple(classes.split()),
        features={},
        order=tuple(name for name in rounds if name not in ("default", "onnxruntime")),
        same={},
        failures={},
        rounds_s=rounds,
        foreign_percent=0.0,
    )


def corpus(**networks: CorpusNetwork) -> Corpus:
    return Corpus("", {"znver2": CorpusProcessor(Device(), ZEN, Compiler("", "relax", ""), networks)})


RESIDUAL = {
    "a": network("a", winograd=1.0, nhwc=2.0, default=100.0, onnxruntime=1.5),
    "b": network("b", winograd=1.0, nhwc=1.5, default=80.0, onnxruntime=1.5),
    "c": network("c", winograd=1.1, nhwc=1.0, default=120.0, onnxruntime=1.5),
}


def test_the_evidence_is_of_networks_of_the_class() -> None:
    others = {name: network(name, "BR", winograd=9.0, nhwc=1.0, default=50.0) for name in ("x", "y", "z")}
    found = evidence({**RESIDUAL, **others}, ["RN"], "winograd")
    assert found is not None and [*found.alike] == ["a", "b", "c"]
    assert found.reach == pytest.approx((1 / 1.1) ** (1 / 3))


def test_networks_that_do_not_take_the_sequence_are_no_evidence() -> None:
    assert evidence({**RESIDUAL, "a": network("a", nhwc=2.0)}, ["RN"], "winograd") is None


def test_a_sequence_with_the_same_kernels_has_the_same_times() -> None:
    row = replace(RESIDUAL["a"], same={"schedule": "nhwc"})
    assert row.rounds("schedule") == row.rounds("nhwc") == (2.0, 2.2)


def test_only_times_of_the_same_round_are_compared() -> None:
    disturbed = replace(RESIDUAL["a"], rounds_s={"winograd": (1.0, 4.0, 1.0), "nhwc": (2.0, 8.0, 0.5)})
    assert disturbed.speed("winograd", over="nhwc") == 2.0 and disturbed.best() == "winograd"


def test_sequences_come_in_the_order_of_what_they_reached_on_the_nearest_networks() -> None:
    near = {name: replace(row, features={"convolution": 20}) for name, row in RESIDUAL.items()}
    far = {
        name: replace(network(name, winograd=9.0, nhwc=1.0), features={"convolution": 20, "depthwise": 17})
        for name in ("x", "y", "z")
    }
    suited = ["nhwc", "winograd"]
    assert order_by_nearest({**far, **near}, ["RN"], {"convolution": 21}, suited) == ("winograd", "nhwc")
    assert order_by_nearest({**far, **near}, ["RN"], {"convolution": 50, "depthwise": 16}, suited) == (
        "nhwc",
        "winograd",
    )


def test_a_sequence_that_the_corpus_does_not_know_keeps_its_place() -> None:
    assert order_by_nearest(RESIDUAL, ["RN"], {}, ["integer", "nhwc", "winograd"]) == ("integer", "winograd", "nhwc")
    assert order_by_nearest(RESIDUAL, ["RN"], {}, ["nhwc", "integer", "winograd"]) == ("winograd", "nhwc", "integer")


def test_without_networks_alike_the_catalog_decides() -> None:
    assert order_by_nearest(RESIDUAL, ["BR"], {}, ["nhwc", "winograd"]) == ("nhwc", "winograd")
    assert (
        "in the catalog's order"
        in advise(corpus(**RESIDUAL), ZEN, classes=["unknown"], features={}, suited=["nhwc", "winograd"]).reason
    )


def test_a_sequence_that_most_of_the_nearest_networks_do_not_take_comes_last() -> None:
    rare = {**RESIDUAL, "a": network("a", winograd=1.0, nhwc=2.0, combine=0.1)}
    assert order_by_nearest(rare, ["RN"], {}, ["combine", "nhwc", "winograd"]) == ("winograd", "nhwc", "combine")


def test_what_a_search_found_counts_as_the_best() -> None:
    row = replace(RESIDUAL["a"], search=CorpusSearch(300.0, "winograd", "composed", StatedRatio(1.25)))
    assert row.reach("winograd") == pytest.approx(0.8)


def test_the_advice_has_what_to_expect_with_intervals() -> None:
    advice = advise(corpus(**RESIDUAL), ZEN, classes=["RN"], features={}, suited=["winograd", "nhwc"])
    assert advice.sequence == "winograd" and not advice.abstained and advice.over_default is not None
    assert advice.over_default.ratio == pytest.approx((100 * 80 * 120 / 1.1) ** (1 / 3))
    low, high = advice.over_default.interval or (None, None)
    assert low is not None and high is not None and low < 80 and high > 109
    assert [*advice.over_others] == ["nhwc"] and advice.over_onnxruntime is not None


def test_the_corpus_abstains_by_the_name_of_the_class() -> None:
    advice = advise(corpus(**RESIDUAL), ZEN, classes=["RECO"], features={}, suited=["schedule", "nhwc"])
    assert "RECO" in advice.abstained and advice.sequence == "schedule" and advice.over_default is None


def test_networks_of_class_unknown_have_nothing_in_common() -> None:
    networks = {name: network(name, "unknown", schedule=1.0, default=9.0) for name in ("x", "y", "z")}
    assert advise(corpus(**networks), ZEN, classes=["unknown"], features={}, suited=["schedule"]).abstained


def test_the_reason_says_how_alike_the_networks_are() -> None:
    advice = advise(corpus(**RESIDUAL), ZEN, classes=["RN", "GROUPED"], features={}, suited=["winograd", "nhwc"])
    assert "on 3 networks that share a class it has 96.9 % of the throughput of the best sequence" in advice.reason
    searched = replace(RESIDUAL["a"], search=CorpusSearch(300.0, "winograd", "composed", StatedRatio(1.25)))
    advice = advise(
        corpus(**{**RESIDUAL, "a": searched}), ZEN, classes=["RN"], features={}, suited=["winograd", "nhwc"]
    )
    assert "on 3 such networks" in advice.reason and "or of a search on 1 of them" in advice.reason


def test_the_bound_says_how_often_it_held() -> None:
    found = {
        name: replace(network(name, winograd=1.0), search=CorpusSearch(60.0, "winograd", "", StatedRatio(gain)))
        for name, gain in zip("abcdef", (1.0, 1.01, 1.02, 1.01, 1.02, 1.5), strict=True)
    }
    advice = advise(corpus(**found), ZEN, classes=["RN"], features={}, suited=["winograd"])
    assert advice.bound is not None and advice.bound.method.endswith("of 60 to 60 s; made without it, it held for 5")


def test_the_corpus_abstains_on_other_processors() -> None:
    advice = advise(corpus(**RESIDUAL), SKYLAKE, classes=["RN"], features={}, suited=["winograd", "nhwc"])
    assert "skylake-avx512" in advice.abstained and "znver2" in advice.abstained and not advice.processor


def test_a_processor_with_as_wide_vectors_stands_for_another_one() -> None:
    advice = advise(corpus(**RESIDUAL), "llvm -mcpu=haswell", classes=["RN"], features={}, suited=["winograd", "nhwc"])
    assert advice.processor == "znver2" and not advice.abstained


def test_too_few_networks_expect_nothing() -> None:
    assert expected_gain([RESIDUAL["a"], RESIDUAL["b"]], "winograd", over="default") is None


def test_the_bound_is_above_what_searches_found_on_average() -> None:
    gains = [1.0, 1.01, 1.02, 1.03, 1.04]
    bound = search_bound(gains, of="znver2 of 300 s")
    assert bound is not None and bound.mean == pytest.approx(math.prod(gains) ** 0.2 - 1) and bound.most > 0.04
    assert "of 5 networks on znver2 of 300 s" in bound.method
    assert search_bound(gains[:4], of="") is None


def test_the_gain_of_a_search_is_over_what_is_recommended() -> None:
    searched = replace(
        network("d", winograd=1.0, nhwc=0.8), search=CorpusSearch(60.0, "nhwc", "composed", StatedRatio(1.1))
    )
    assert search_gains({**RESIDUAL, "d": searched}) == {"d": pytest.approx(1.0 / 0.8 * 1.1)}
