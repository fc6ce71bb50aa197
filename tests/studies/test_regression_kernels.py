"""Kernels of two engines are matched by what they compute."""

import pytest

from passsearch.engines import KernelCall
from passsearch.engines.artifact import _operator
from passsearch.studies.regression_kernels import first_operator, kernel_differences
from passsearch.studies.regression_records import slowest_kernel


def call(operator: str, shape: str, seconds: float, name: str = "") -> KernelCall:
    return KernelCall(name or operator, seconds, operator, shape)


@pytest.mark.parametrize(
    ("name", "operator", "first"),
    [
        ("fused_conv2d1_add12_relu", "fused_conv2d_add_relu", "conv2d"),
        (
            "tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu_12",
            "tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu",
            "conv2d",
        ),
        ("max_pool2d3", "max_pool2d", "max_pool2d"),
        ("fused_batch_matmul3", "fused_batch_matmul", "batch_matmul"),
        ("batch_norm", "batch_norm", "batch_norm"),
        ("fused_add_conv2d", "fused_add_conv2d", "conv2d"),
        ("fused_matmul4", "fused_matmul", "matmul"),
        ("FusedConv", "FusedConv", "Conv"),
    ],
)
def test_kernels_of_one_operator_have_one_name(name: str, operator: str, first: str) -> None:
    assert _operator(name) == operator
    assert first_operator(call(operator, "", 1.0)) == first


def test_a_kernel_that_lost_stands_first_with_its_share() -> None:
    before = [call("conv", "1x8", 1.0, "conv 1"), call("conv", "1x8", 1.0, "conv 2"), call("pool", "1x8", 2.0)]
    after = [call("pool", "1x8", 2.5), call("conv", "1x8", 4.0, "conv 7"), call("conv", "1x8", 1.0, "conv 8")]
    first, second = kernel_differences(before, after, whole_s=4.0)
    assert (first.operator, first.shape, first.matched_by) == ("conv", "1x8", "operator and shape")
    assert (first.before_s, first.after_s, first.difference_s, first.share) == (2.0, 5.0, 3.0, 0.75)
    assert (first.kernels_before, first.kernels_after) == (("conv 1", "conv 2"), ("conv 7", "conv 8"))
    assert (second.operator, second.difference_s) == ("pool", 0.5)


def test_kernels_that_are_fused_otherwise_are_matched_by_their_first_operator() -> None:
    before = [call("fused_conv2d_add_relu", "1x3x8x8 16x3x3x3 16", 1.0), call("fused_matmul_add", "4x8 8x8", 1.0)]
    after = [
        call("conv2d", "1x3x8x8 16x3x3x3", 1.5),
        call("add", "1x16x6x6 16", 0.5),
        call("matmul", "4x16 16x8", 1.25),
    ]
    rows = {row.operator: row for row in kernel_differences(before, after, whole_s=1.25)}
    assert (rows["conv2d"].matched_by, rows["conv2d"].difference_s) == ("first operator and input", 0.5)
    assert (rows["conv2d"].shape, rows["matmul"].shape) == ("1x3x8x8", None)
    assert (rows["matmul"].matched_by, rows["matmul"].difference_s) == ("first operator", 0.25)
    # What one side lacks is no kernel of 0 seconds.
    assert (rows["add"].before_s, rows["add"].after_s, rows["add"].matched_by) == (None, 0.5, None)


def test_without_a_slowdown_there_is_no_share() -> None:
    [row] = kernel_differences([call("conv", "1", 1.0)], [call("conv", "1", 2.0)], whole_s=-1.0)
    assert row.share is None


def named(before: list[KernelCall], after: list[KernelCall]) -> str | None:
    return slowest_kernel(kernel_differences(before, after, whole_s=1.0))


def test_engines_name_one_operator_otherwise() -> None:
    before = [call("Conv", "1x3x8x8 16x3x3x3 16", 4.0), call("Relu", "1x16", 1.0)]
    after = [call("Convolution", "1x3x8x8 16x3x3x3 1x16x6x6", 5.0), call("Relu", "1x16", 3.0)]
    rows = kernel_differences(before, after, whole_s=3.0)
    assert [(row.operator, row.difference_s) for row in rows] == [("Relu", 2.0), ("Convolution", 1.0)]
    assert slowest_kernel(rows) == "Relu 1x16"
    [row] = kernel_differences([call("MatMul", "4x8 8x8", 1.0)], [call("FullyConnected", "4x8", 2.0)], whole_s=1.0)
    assert (row.operator, row.difference_s) == ("FullyConnected", 1.0)


def test_a_kernel_that_one_side_lacks_is_not_named() -> None:
    assert named([call("pool", "1", 1.0)], [call("pool", "1", 1.5), call("reorder", "1", 9.0)]) == "pool 1"
    assert named([], [call("reorder", "1", 9.0)]) is None


def test_what_an_operator_loses_and_wins_on_its_shapes_is_summed() -> None:
    before = [call("conv", "1", 1.0), call("conv", "2", 5.0), call("pool", "1", 1.0)]
    after = [call("conv", "1", 4.0), call("conv", "2", 2.5), call("pool", "1", 2.0)]
    assert named(before, after) == "pool 1"
