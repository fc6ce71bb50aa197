"""Scales and zero points of programs that PyTorch's ``pt2e`` quantised are imported as PyTorch uses them."""

from typing import Any

import pytest

from passsearch.toolchain import Toolchain
from passsearch.toolchain.install import installed_frameworks

REFUSED = {
    "zero point above": "Operator quantize_per_tensor `quantize_per_tensor`: the zero point 300 is no int8; "
    "use integers from -128 to 127",
    "zero point below": "the zero point -129 is no int8",
    "zero point between": "the zero point 0.5 is no int8",
    "scale 0": "the scale 0 is not supported; quantise with positive numbers",
    "scale below": "the scale -0.5 is not supported",
    "scale nan": "the scale nan is not supported",
    "scale inf": "the scale inf is not supported",
    "computed": "`mean`, which it takes, is known at run time only; make it a buffer",
    "float8": "float8_e4m3fn is not supported; quantise to integers",
}


def test_parameters_of_quantised_programs_are_imported_or_refused(cases: Any, relax: Toolchain) -> None:
    if "torch" not in installed_frameworks(relax):
        pytest.skip("needs: passsearch toolchain install relax --with torch")
    results = {case["case"]: case for case in cases("torch_parameter_cases.py")}
    assert len(results) == 17
    refusals = {name: case["refusal"] for name, case in results.items() if "refusal" in case}
    assert refusals.keys() == {*REFUSED}
    assert {name: text for name, text in refusals.items() if REFUSED[name] not in text or "\n" in text} == {}
    right = {name: case for name, case in results.items() if name not in REFUSED}
    assert all(case["same type"] for case in right.values())
    # A step of float16 at these values.
    limits = {name: 2e-3 if "float16" in name else 1e-6 for name in right}
    assert {name: case["error"] for name, case in right.items() if not case["error"] < limits[name]} == {}
