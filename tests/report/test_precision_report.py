"""What was decided on the precision of weights: the units, the reasons of layers, the chart and the command."""

from typing import Any

from passsearch.report import RunRecord, report_page, result_text
from passsearch.report.charts import precision_chart
from passsearch.report.commands import tune_command
from passsearch.results import LayerPrecision, PrecisionDecision, RunResult, UniformPrecision

REASON = "the sum of 100 numbers is not divided by groups of 32"


def decision(**changed: Any) -> PrecisionDecision:
    """Return a decision on two layers, the second of which cannot be narrowed."""
    narrow = LayerPrecision(
        storage="int8",
        kernel="matmul",
        call=0,
        weights="256x256",
        float32_s=1e-3,
        saved_s=5e-4,
        error=2e-3,
        error_share=1.0,
    )
    wide = LayerPrecision(
        storage="float32",
        kernel="matmul1",
        call=0,
        weights="100x256",
        float32_s=1e-3,
        saved_s=0.0,
        error_share=0.0,
        reason=REASON,
    )
    values: dict[str, Any] = {
        "budget": 0.01,
        "compared_with": "the float32 outputs of ONNX Runtime",
        "samples": 64,
        "pipeline": "NarrowWeights",
        "begin_s": 2e-3,
        "predicted_s": 1.5e-3,
        "bound_s": 1.5e-3,
        "predicted_error": 2e-3,
        "error": 2.1e-3,
        "gain": 1.3,
        "layers": (narrow, wide),
        "uniform": (UniformPrecision(storage="int8", predicted_s=1.6e-3, error=0.3, loss=0.03),),
        "rounds": 4,
    }
    return PrecisionDecision(**{**values, **changed})


def text_of(result: dict[str, Any], found: PrecisionDecision) -> str:
    return result_text(RunResult.from_json({**result, "precision": found.to_json()}), width=1000)


def test_a_budget_of_outputs_is_stated_with_the_reason_of_every_layer(result: dict[str, Any]) -> None:
    text = text_of(result, decision())
    assert "by 0.0021 of the largest (0.01 allowed, 0.002 predicted), on 64 samples" in text
    assert f"matmul1 0: 100x256 in float32: {REASON}\n" in text and "classes:" not in text
    assert decision().to_json()["layers"][1]["reason"] == REASON
    page = report_page([RunRecord(RunResult.from_json({**result, "precision": decision().to_json()}))])
    assert REASON in page and "(dashed: the budget)" in page


def test_a_budget_of_classes_is_stated_predicted_and_measured(result: dict[str, Any]) -> None:
    classes = {"unit": "top1", "bound": 0.02, "predicted_loss": 0.04, "loss": 0.01, "rows": 400}
    text = text_of(result, decision(**classes))
    allowed = "(1 % allowed, 4 % predicted at most), of 400 rows"
    assert f"classes: 1 % of the rows with another class than the reference's {allowed}" in text
    assert "nothing within an error of 0.02 is predicted" in text and "too few samples" not in text
    assert "none is faster within the budget; int8 1.25 times at an error of 0.3 and 3 % of the rows" in text
    chart = precision_chart(decision(**classes))
    assert chart.title.endswith(", by top1") and chart.x.mark == 0.02 and "a budget of 1 % in top1" in chart.x.title


def test_too_few_rows_for_a_budget_are_said_in_a_line(result: dict[str, Any]) -> None:
    text = text_of(result, decision(unit="accuracy", bound=0.02, loss=0.0, rows=20))
    assert "too few samples: 20 rows tell shares of 5 % only, so a budget of 1 % allows none; give more by" in text
    assert "fewer of the rows classified right" in text


def test_a_decision_of_nothing_states_the_nearest_point_in_the_unit(result: dict[str, Any]) -> None:
    nothing = decision(unit="top1", pipeline=None, layers=(), nearest=0.05, gain=None)
    assert "nothing within a budget of 1 % of the rows" in text_of(result, nothing)
    assert "the nearest point has 5 % of the rows" in text_of(result, nothing)


def test_the_command_of_a_run_has_its_budget(result: dict[str, Any]) -> None:
    settings = {"budget": "accuracy:0.005", "samples": "3f", "labels": "a1"}
    command = tune_command(RunRecord(RunResult.from_json(result), settings=settings))
    assert "--samples FILE --precision weights --budget accuracy:0.005 --labels FILE" in command
    assert "--precision weights --budget 0.01" in tune_command(
        RunRecord(RunResult.from_json(result), settings={"budget": 0.01})
    )
    in_tf32 = tune_command(RunRecord(RunResult.from_json(result), settings={"precision": "tf32"}))
    assert "--precision tf32" in in_tf32 and "--budget" not in in_tf32
