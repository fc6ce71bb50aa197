"""Arguments that a pass cannot use are refused in one line that says what it takes."""

from typing import Any


def test_wrong_arguments_are_refused(cases: Any) -> None:
    assert {case["case"]: case["message"] for case in cases("wrong_argument_cases.py")} == {
        "no rows": "`rows` of ScheduleCPU is 1 or more, or null; got 0",
        "fewer vectors than one": "`vectors` of ScheduleCPU is 1 or more, or null; got -1",
        "prefetch before the first step": "`prefetch` of ScheduleCPU is 0 or more, or null; got -8",
        "no rows of one kernel": "`rows` of ScheduleCPU is 1 or more, or null; got 0",
        "a rule without a device": "a rule has a device and a name, as in `gpu.Matmul`; got `Matmul`",
    }
