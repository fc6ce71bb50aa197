"""A module is imported at sizes that the user chose, and with the functions that the user chose."""

from typing import Any


def test_open_sizes_are_given_or_refused(cases: Any) -> None:
    results = {case["case"]: case for case in cases("module_cases.py")}
    assert results["bound"]["inputs"] == {"first": [1, 128], "second": [1, 128]}
    assert "has open dimensions; give its sizes, for example: --" in results["open"]["message"]
    assert "`n` cannot be both 128 and 64" in results["contradictory"]["message"]
    assert "has `prefill` but no `main`; choose one: --function prefill" in results["no main"]["message"]
    assert "has open dimensions" in results["open function"]["message"]
    assert "but no `encode`" in results["unknown function"]["message"]
    # The function that the user chose is the main; others that it does not call are left out.
    assert results["chosen"]["inputs"] == {"x": [1, 8]}
    assert results["chosen"]["names"] == ["decode_product", "main"]
    assert results["chosen"]["present"] == ["decode", "prefill"]
    # Two cases are two functions of one module, with one copy of the weights; written and read, it is the same module.
    cases_of_both = results["cases"]
    assert cases_of_both["names"] == ["decode_product", "main_decode", "main_prefill", "prefill_product"]
    assert cases_of_both["constants"] == 1
    assert cases_of_both["same"]
    assert cases_of_both["shapes"] == [[4, 8], [1, 8]]
    assert cases_of_both["calls"] == [0.1, 0.9], "a kernel's calls count by the weight of their function"
    recorded = {"calls": {"dense": 2, "add": 2}, "data": [1.0, 1.0, 1.0], "number": 5}
    assert results["recorded"] == {"case": "recorded", **recorded}
    # Sizes stay open where the user wants that; the kernels that are listed are those of fixed sizes.
    assert results["symbolic"] == {"case": "symbolic", "inputs": {"x": [None, 8]}, "kernels": 0, "equal": [True, True]}
