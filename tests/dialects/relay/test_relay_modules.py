"""A module is imported at sizes and with the function that the user chose; a built one is run and observed."""

from typing import Any


def test_open_sizes_are_given_or_refused(cases: Any) -> None:
    results = {case["case"]: case for case in cases("module_cases.py")}
    assert results["bound"]["inputs"] == {"first": [1, 128], "second": [1, 128]}
    assert "has open dimensions; give its sizes, for example: --" in results["open"]["message"]
    assert "has `prefill` but no `main`; choose one: --function prefill" in results["no main"]["message"]
    assert "but no `encode`" in results["unknown function"]["message"]
    # The function that the user chose is the main, in place of another main.
    assert results["chosen"]["inputs"] == {"x": [1, 8]}
    assert results["chosen"]["names"] == ["helper", "main"]
    assert results["chosen"]["present"] == ["decode", "main"]


def test_attributes_without_a_class_in_python_are_read(cases: Any) -> None:
    results = {case["case"]: case for case in cases("module_cases.py")}
    assert results["without a class"]["attributes"] == {"output_size": [1], "layout": "NCW", "out_layout": ""}
    assert results["without a class"]["counts"]["nn.adaptive_avg_pool1d NCW"] == 1


def test_an_executable_answers_alike_once_its_kernels_were_observed(cases: Any) -> None:
    results = {case["case"]: case for case in cases("module_cases.py")}
    assert results["profiled"] == {"case": "profiled", "equal": True, "differ": True, "calls": 1}
