"""Outputs of a call are the caller's own memory, whatever the network returns, and inputs stay as they are."""

from typing import Any


def test_outputs_are_memory_of_their_own(cases: Any) -> None:
    results = {case.pop("case"): case for case in cases("machine_cases.py")}
    assert results.pop("branches") == {"right": [True] * 4}
    assert results.pop("nothing") == {"shapes": [[2, 0, 8]]}
    copied = {name: case.pop("is_copied") for name, case in results.items()}
    assert copied == {"aligned": False, "not aligned": True, "read only": True, "reversed": True}
    own = {"right": [True] * 3, "input_is_as_before": True, "outputs_are_as_written": True}
    assert results == dict.fromkeys(copied, own)
