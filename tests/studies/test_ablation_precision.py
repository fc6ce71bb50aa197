"""What the precision of each layer is worth is measured where time allows, and stated as predicted elsewhere."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from time_limits import time_left

from passsearch.core import Failure, Pipeline, TimeLimit
from passsearch.evaluate import RoundedOutputs
from passsearch.evaluate.verify import VerifyFact
from passsearch.results import LayerPrecision, PrecisionDecision, PrecisionWorth
from passsearch.studies.ablation_precision import CUT, MOST_CHOICES, precision_worth

WINNER = "A,NarrowWeights,B"


class Evaluator:
    """An evaluator of a network whose error is 0.001 and 0.01 for each rounded layer."""

    def __init__(self, failure: Failure | None = None) -> None:
        self.session = SimpleNamespace(budget=SimpleNamespace(bound=0.1), catalog=SimpleNamespace(entries={}))
        self.rounding, self.failure, self.requests = self, failure, list[int]()

    def reach(self, pipeline: Pipeline) -> str:
        assert str(pipeline) == "A"
        return "state"

    def usual_cases(self, most: int) -> Sequence[int]:
        return range(most)

    def compare(
        self, state: str, steps: Sequence[Any], *, choices: Sequence[Mapping[Any, Any]], cases: Sequence[int]
    ) -> Sequence[RoundedOutputs] | Failure:
        assert state == "state" and [str(step) for step in steps] == ["B"] and len(cases) == 4
        self.requests.append(len(choices))
        deviations = [0.001 + 0.01 * len(choice) for choice in choices]
        outputs = [VerifyFact(each, 0, deviations={"0": each}) for each in deviations]
        return self.failure or [RoundedOutputs(each, (), 1, 0) for each in outputs]


def decision(layers: int, pipeline: str = WINNER) -> PrecisionDecision:
    layer = LayerPrecision(
        storage="int8", kernel="matmul", call=0, weights="8x8", float32_s=2.0, saved_s=1.0, error_share=1 / layers
    )
    return PrecisionDecision.from_json(
        {
            "budget": 0.1,
            "compared_with": "outputs",
            "samples": 0,
            "pipeline": pipeline,
            "begin_s": 2.0,
            "predicted_s": 1.0,
            "bound_s": 1.0,
            "predicted_error": 0.02,
            "error": 0.02,
            "layers": [{**layer.to_json(), "call": call} for call in range(layers)],
        }
    )


def worth(found: PrecisionDecision, evaluator: Evaluator, time_limit: TimeLimit) -> PrecisionWorth | None:
    pipeline = Pipeline.parse(WINNER)
    return precision_worth(found, pipeline, evaluator, time_limit=time_limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", [1, 2, 20])
def test_every_layer_is_measured_in_few_requests(layers: int) -> None:
    evaluator = Evaluator()
    found = worth(decision(layers), evaluator, TimeLimit())
    assert found is not None and found.failure == ""
    assert found.error == pytest.approx(0.001 + 0.01 * layers)
    # One layer alone leaves the error that the network has in float32.
    assert [each.error for each in found.layers] == pytest.approx([0.001 + 0.01 * (layers - 1)] * layers)
    assert sum(evaluator.requests) == 1 + layers and max(evaluator.requests) <= MOST_CHOICES


@pytest.mark.parametrize(("left", "measured"), [([0.0], 0), ([60.0, 0.0], 1), ([60.0, 60.0, 0.0], 9)])
def test_what_the_time_does_not_suffice_for_is_predicted(left: list[float], measured: int) -> None:
    found = worth(decision(20), Evaluator(), time_left(iter(left).__next__))
    assert found is not None and found.failure == CUT
    errors = [found.error, *(each.error for each in found.layers)]
    assert [each is not None for each in errors] == [place < measured for place in range(21)]
    assert all(0 < each.predicted_error < 0.02 for each in found.layers)


def test_a_failure_is_stated() -> None:
    found = worth(decision(2), Evaluator(Failure("compile_error", "build", "", "no such kernel")), TimeLimit())
    assert found is not None and found.failure == "no such kernel" and found.error is None


@pytest.mark.parametrize("other", ["C,NarrowWeights,B", 'A,NarrowWeights{storage="int4"},B', "A,B"])
def test_a_decision_on_another_state_says_nothing_about_the_winner(other: str) -> None:
    assert worth(decision(2, other), Evaluator(), TimeLimit()) is None
