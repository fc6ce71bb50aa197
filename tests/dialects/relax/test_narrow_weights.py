"""Narrow weights are rounded as stated, kernels compute with these, and what stays float32 says why."""

from collections import defaultdict
from typing import Any

import pytest
import short_plans

import passsearch
from passsearch.toolchain import Toolchain


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_kernels_compute_with_the_stored_weights(cases: Any, every: int) -> None:
    results = defaultdict(list)
    for case in cases("narrow_cases.py", str(every)):
        results[case.pop("kind")].append(case)
    fitting = results["fitting"]
    assert len(fitting) == len(range(0, 11 * 6, every))
    sizes = {("bfloat16", 0): 1 / 2, ("float16", 0): 1 / 2, ("int8", 0): 1 / 4}
    for case in fitting:
        assert case["stored"] and case["well_formed"], case
        # The same sums of the same float32 products, in another order where a scale is multiplied later.
        assert case["deviation"] < 3e-6 and case["unscheduled"] < 3e-6, case
        bits, group = {"int8": 8, "int4": 4}.get(case["storage"], 16), case["group"]
        assert case["bytes"] == sizes.get((case["storage"], group), (bits + 32 / group if group else bits) / 32), case
    _check_notes({case["case"]: case for case in results["notes"]})
    assert all(case["deviation"] < 1e-6 for case in results["table"]), results["table"]
    texts = ["bfloat16", "float16", "int8", *["int8: a table has one scale for each row"] * 3]
    assert [case["notes"] for case in results["table"]] == [[[f"300x96 in {text}"]] for text in texts]
    line = "40x416 in int4 in groups of 40: groups of 32 do not divide the sum"
    assert [case["notes"] for case in results["coarser"]] == [{"matmul": [line]}] * 2
    assert all(case["deviation"] < 3e-6 for case in results["coarser"]), results["coarser"]
    assert all(case["is_zero"] and case["others"] for case in results["zero"]), results["zero"]
    assert results["shared"] == [{"case": "shared", "arrays": ["int8", "float32"]}]
    (merged,) = results["merged"]
    assert merged["notes"] == {"matmul": ["128x384 in bfloat16"]} and merged["deviation"] < 1e-6
    assert len(results["open"]) == 6 and all(case["deviation"] < 3e-6 for case in results["open"]), results["open"]
    assert len(results["calls"]) == 6 and {case["case"] for case in results["calls"]} == {"matmul:1"}
    for case in results["calls"]:
        # One line: the first layer is of another function now, which says nothing.
        assert case["rounded"] and case["deviation"] < 3e-6, case
        (name,) = case["notes"]
        assert name.startswith("matmul_") and case["notes"][name] == case["lines"], case
    (two,) = results["two storages"]
    assert two["kernels"] == ["matmul_bfloat16", "matmul_int4_32"] and two["deviation"] < 3e-6, two
    assert [case["is_equal"] for case in results["unchanged"]] == [True, True, True, False]
    sizes_of_files = {case["case"]: case["bytes"] / 4 / 1024**2 for case in results["file"]}
    limits = {"float32": 1.05, "bfloat16": 0.55, "float16": 0.55, "int8": 0.3, "int4": 0.2}
    assert all(sizes_of_files[name] < limit for name, limit in limits.items()), sizes_of_files
    _check_errors({case["case"]: case["error"] for case in results["wrong"]})


def _check_notes(cases: dict[str, Any]) -> None:
    """Check the reasons for weights that stay float32, and that nothing else stays so."""
    reasons = {name: [line for lines in case["notes"].values() for line in lines] for name, case in cases.items()}
    assert reasons == {
        "nan": ["128x256 in float32: some are infinite or NaN"],
        "infinite": ["128x256 in float32: some are infinite or NaN"],
        "large": ["128x256 in float32: some are too large for float16"],
        "large in bfloat16": ["128x256 in bfloat16"],
        "largest": ["128x256 in float32: some are too large for bfloat16"],
        "no product": ["256x128 in float32: they are no factor of a sum of products"],
        "odd sum": ["127x256 in float32: no axis of the sum divides into groups of 16 to 256"],
        "other group": ["144x256 in int4 in groups of 24: groups of 32 do not divide the sum"],
        "small": ["32x32 in float32: they are fewer than 16384 numbers"],
        "exact float16": ["128x256 in float16"],
        "exact bfloat16": ["128x256 in bfloat16"],
        "exact in two layers": ["128x128 in float16"],
        "not exact": ["128x256 in float32: no 16-bit type has all of their numbers"],
        "16 rows": ["128x256 in float16"],
        "17 rows": ["128x256 in float32: products of more than 16 rows gain nothing"],
        "nothing asked for": [],
        "another kernel": [],
        "one kernel": ["128x256 in int4 in groups of 64"],
        "depthwise": ["2048x1x3x3 in float32: each number is multiplied with one channel only"],
    }
    assert cases["nothing asked for"]["same"] and cases["another kernel"]["same"]
    assert all(case["types"] == ["float32"] for case in cases.values() if "float32" in str(case["notes"]))


def _check_errors(errors: dict[str, str]) -> None:
    start = "`group` of NarrowWeights is"
    assert errors == {
        "storage": "`storage` of NarrowWeights is one of float32, exact, bfloat16, float16, int8, int4; got int2",
        "group": f"{start} a multiple of 8 from 32 to 256, or 0 for columns; got 20",
        "columns of int4": f"{start} not 0 for int4: one scale for a column of 16 values is too coarse",
        "kernel": "no function `convolution` to narrow the weights of",
        "parameter": "a kernel takes storage, group and activations; got {'rows': 4}",
        "call": "no call 5 of a function `matmul`",
        "number": "a single call is `FUNCTION:NUMBER`; got `matmul:last`",
    }


@pytest.mark.toolchain
def test_outputs_are_refused_unless_a_tolerance_allows_them(relax: Toolchain) -> None:
    pipeline = passsearch.apply("zoo:llama_tiny_decode", "narrow-int8-schedule-cpu", toolchain=relax.name)
    lines = [line for step in pipeline["steps"] for line in step.get("weights", ())]
    # Only the two products before a SwiGLU are large enough, as one.
    assert {line.partition(": ")[2] for line in lines if "16384" not in line} <= {"64x352 in int8"}, lines
    text = str(pipeline["pipeline"]).replace('storage="int8"', 'least=64,storage="int8"')
    names = ["decoder-schedule-cpu", text]
    rows = {}
    for tolerance in (None, 0.5):
        document = short_plans.compare(
            "zoo:llama_tiny_decode", names, toolchain=relax.name, rounds=2, processes=1, tolerance=tolerance
        )
        rows[tolerance] = document["rows"][-1]
    assert "outputs deviate" in rows[None]["failure"]["reason"]
    assert 1e-4 < rows[0.5]["outputs"]["deviation"] < 0.5
