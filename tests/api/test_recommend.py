"""``recommend``: from the corpus, without building anything."""

import pytest

import passsearch
from passsearch.results import NetworkRecommendation
from passsearch.toolchain import Toolchain


@pytest.fixture(scope="module")
def recommendation(relax: Toolchain) -> passsearch.api.Recommendation:
    return passsearch.recommend("zoo:bert_tiny", toolchain=relax.name, target="llvm -mcpu=znver2")


def test_it_takes_less_than_a_second_beyond_the_import(recommendation: passsearch.api.Recommendation) -> None:
    assert recommendation["seconds"]["recommend"] < 1


def test_it_says_what_to_expect(recommendation: passsearch.api.Recommendation) -> None:
    record = NetworkRecommendation.from_json(recommendation)
    assert not record.abstained and len(record.alike) >= 3 and record.over_default is not None
    assert record.over_default.ratio is not None and record.over_default.ratio > 5
    assert record.pipeline.name in str(recommendation) and "TVM's default" in str(recommendation)


def test_the_analysis_has_it_too(recommendation: passsearch.api.Recommendation, relax: Toolchain) -> None:
    analysis = passsearch.analyze("zoo:bert_tiny", toolchain=relax.name)
    stated = analysis.to_json()["recommendation"]
    assert {**stated, "seconds": {}, "target": "", "processor": ""}.keys() == recommendation.keys()


def test_it_abstains_on_a_processor_that_was_not_measured(relax: Toolchain) -> None:
    document = passsearch.recommend("zoo:resnet_tiny", toolchain=relax.name, target="llvm -mcpu=nehalem")
    assert "nehalem" in document["abstained"] and document["over_default"] is None
    assert document["pipeline"]["name"] == "winograd-schedule-cpu"
