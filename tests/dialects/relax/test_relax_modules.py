"""A module is never imported at a size that nobody chose, and a module without a main is refused in one line."""

from typing import Any


def test_open_sizes_are_given_or_refused(cases: Any) -> None:
    results = {case["case"]: case for case in cases("module_cases.py")}
    assert results["bound"]["inputs"] == {"first": [1, 128], "second": [1, 128]}
    assert "has open dimensions; give its sizes, for example: --input" in results["open"]["message"]
    assert "`n` cannot be both 128 and 64" in results["contradictory"]["message"]
    assert "has `prefill` but no `main`" in results["no main"]["message"]
