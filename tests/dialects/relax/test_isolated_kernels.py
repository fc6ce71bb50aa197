"""Kernels that are taken out of their network have the constants and arguments that they have there."""

from typing import Any

BYTES = 8 * 8 * 4


def test_kernels_alone_have_the_constants_of_all_their_calls(cases: Any) -> None:
    results = {case.pop("case"): case for case in cases("kernel_cases.py")}
    stretches = results.pop("stretches")
    ends = [begin + size for begin, size in stretches["places"]]
    follows = [begin >= end for (begin, _), end in zip(stretches["places"][1:], ends, strict=False)]
    begins = [begin == 0 for begin, _ in stretches["places"][1:]]
    assert stretches["aligned"] and all(one or other for one, other in zip(follows, begins, strict=True))
    assert 1 <= sum(begins) <= 3, "what another variant has just read is not read again before the buffer's end"
    assert all(case["same"] for case in results.values()), "outputs are computed with the kernel's own constants"
    filled = results["a kernel without arguments"]
    assert [calls for _, calls, _ in filled["kernels"]] == [1, 1]
    assert filled["parameters"] == [0, 2] and filled["shapes"] == [[8, 8]] * 2
    shared = results["one constant in two calls"]
    assert [kernel[1:] for kernel in shared["kernels"]] == [[2, True]]
    assert shared["parameters"] == [1] and shared["constant bytes"] == BYTES, "one constant counts once"
    mixed = results["a constant in one call of two"]
    assert [kernel[1:] for kernel in mixed["kernels"]] == [[2, False]]
    assert mixed["parameters"] == [2], "no schedule of the network can pack it"
