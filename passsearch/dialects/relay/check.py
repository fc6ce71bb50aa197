"""Test Relay catalog entries with this TVM, each on a small network made for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.entry_check import EntryCheck, PassCase

__all__ = ["check_entry"]

_OUR_PASSES = "passsearch.standalone.relay.graph_rewrites.passes"


# The networks are as small as possible and still have the feature that the pass is for.


def _constant(*shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(shape) if dtype.startswith("float") else rng.integers(-9, 9, shape)
    return relay.const(values.astype(dtype))


def _function(body: Any) -> Any:
    return relay.Function(relay.analysis.free_vars(body), body)


def _image() -> Any:
    return relay.var("x", shape=(1, 8, 8, 8))


def _conv(data: Any, **attributes: Any) -> Any:
    settings = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 1), **attributes}
    return relay.nn.conv2d(data, _constant(16, 8, *settings["kernel_size"]), **settings)


def _batch_norm(data: Any) -> Any:
    ones = relay.const(np.full(16, 0.5, "float32"))
    return relay.nn.batch_norm(data, ones, _constant(16), _constant(16), ones)[0]


def _conv_bn_relu() -> Any:
    return _function(relay.nn.relu(_batch_norm(_conv(_image()))))


def _conv_bias_relu() -> Any:
    return _function(relay.nn.relu(relay.nn.bias_add(_conv(_image()), _constant(16))))


def _conv_scale() -> Any:
    scale = relay.const(np.full((16, 1, 1), 0.5, "float32"))
    return _function(relay.nn.relu(relay.multiply(_conv(_image()), scale)))


def _scale_conv() -> Any:
    scale = relay.const(np.full((8, 1, 1), 0.5, "float32"))
    return _function(relay.nn.relu(_conv(relay.multiply(_image(), scale))))


def _padded_conv() -> Any:
    padded = relay.nn.pad(_image(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return _function(_conv(padded, padding=(0, 0)))


def _sibling_conv() -> Any:
    data = _image()
    branches = [relay.nn.relu(_conv(data, kernel_size=(1, 1), padding=(0, 0))) for _ in range(3)]
    return _function(relay.concatenate(branches, axis=1))


def _sibling_dense() -> Any:
    data = relay.var("x", shape=(4, 8))
    branches = [relay.nn.relu(relay.nn.dense(data, _constant(16, 8))) for _ in range(3)]
    return _function(relay.Tuple(branches))


def _sibling_batch_matmul() -> Any:
    data = relay.var("x", shape=(2, 4, 8))
    branches = [relay.nn.batch_matmul(data, _constant(2, 6, 8)) for _ in range(3)]
    return _function(relay.Tuple(branches))


def _attention() -> Any:
    data = relay.var("x", shape=(2, 4, 8))
    scores = relay.nn.softmax(relay.nn.batch_matmul(data, data) / relay.const(2.0))
    mixed = relay.nn.batch_matmul(scores, data, transpose_b=False)
    return _function(relay.erf(relay.nn.layer_norm(mixed, _constant(8), _constant(8))))


def _transposed_dense() -> Any:
    data = relay.var("x", shape=(4, 8))
    return _function(relay.nn.dense(data, relay.transpose(_constant(8, 16), axes=[1, 0])))


def _constant_subexpression() -> Any:
    return _function(relay.add(relay.var("x", shape=(8,)), relay.exp(_constant(8))))


def _double_reshape() -> Any:
    return _function(relay.reshape(relay.reshape(relay.var("x", shape=(2, 3, 4)), (6, 4)), (24,)))


def _division() -> Any:
    return _function(relay.divide(relay.var("x", shape=(8,)), relay.const(4.0)))


def _common_subexpression() -> Any:
    data = relay.var("x", shape=(8,))
    return _function(relay.add(relay.exp(data), relay.exp(data)))


def _shared_cast() -> Any:
    wide = relay.cast(relay.var("x", shape=(8,), dtype="int8"), "int32")
    return _function(relay.Tuple([relay.add(wide, wide), relay.exp(relay.cast(wide, "float32"))]))


def _dynamic_reshape() -> Any:
    half = relay.const(np.array([2, 3], "int64"))
    return _function(relay.reshape(relay.var("x", shape=(24,)), relay.add(half, half)))


def _atrous_conv() -> Any:
    data = relay.var("x", shape=(1, 8, 8, 8))
    spread = relay.nn.space_to_batch_nd(data, block_shape=[2, 2], paddings=[[2, 2], [2, 2]])
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    mixed = relay.nn.conv2d(spread, _constant(3, 3, 8, 16), channels=16, kernel_size=(3, 3), **layouts)
    return _function(relay.nn.batch_to_space_nd(mixed, [2, 2], [[0, 0], [0, 0]]))


def _sibling_add() -> Any:
    data = relay.var("x", shape=(4, 8))
    return _function(relay.Tuple([relay.add(data, _constant(4, 8)) for _ in range(3)]))


def _marked_region() -> Any:
    begin, end = relay.annotation.compiler_begin, relay.annotation.compiler_end
    return _function(end(relay.nn.relu(begin(relay.var("x", shape=(8,)), "test")), "test"))


def _quantized() -> Any:
    scale, zero = relay.const(0.5), relay.const(0, "int32")
    data = relay.qnn.op.quantize(relay.var("x", shape=(1, 8)), scale, zero)
    data = relay.qnn.op.dequantize(data, scale, zero)
    weight = relay.qnn.op.dequantize(_constant(16, 8, dtype="int8"), scale, zero)
    return _function(relay.qnn.op.quantize(relay.nn.dense(data, weight), scale, zero))


def _quantized_dense() -> Any:
    scale, zero = relay.const(0.5), relay.const(0, "int32")
    data, weight = relay.var("x", shape=(1, 8), dtype="int8"), _constant(16, 8, dtype="int8")
    return _function(relay.qnn.op.dense(data, weight, zero, zero, scale, scale, units=16))


def _dead_binding() -> Any:
    data, unused = relay.var("x", shape=(8,)), relay.var("unused", shape=(8,))
    return relay.Function([data], relay.Let(unused, relay.exp(data), relay.nn.relu(data)))


def _products() -> Any:
    data = relay.var("x", shape=(8,))
    return _function(relay.add(relay.multiply(data, data), relay.const(1.0)))


def _chain() -> Any:
    return _function(relay.add(relay.var("x", shape=(8,)), relay.var("y", shape=(8,))))


def _closure() -> Any:
    data, inner = relay.var("x", shape=(8,)), relay.var("inner", shape=(8,))
    return relay.Function([data], relay.Call(relay.Function([inner], relay.add(inner, data)), [data]))


_CASES: dict[str, PassCase] = {
    "AlterOpLayout": PassCase(_conv_bn_relu, ("SimplifyInference",)),
    "AnnotateTarget": PassCase(_conv_bias_relu, must_change=False),
    "BackwardFoldScaleAxis": PassCase(_conv_scale),
    "BatchingOps": PassCase(_sibling_dense),
    "CanonicalizeCast": PassCase(_shared_cast),
    "CanonicalizeOps": PassCase(_conv_bias_relu),
    "ChangeBatch": PassCase(_conv_bias_relu),
    "CollagePartition": PassCase(_products, must_change=False),
    "CombineParallelBatchMatmul": PassCase(_sibling_batch_matmul),
    "CombineParallelConv2D": PassCase(_sibling_conv),
    "CombineParallelDense": PassCase(_sibling_dense),
    "CombineParallelOpBatch": PassCase(_sibling_add, must_change=False),
    "ConvertLayout": PassCase(_conv_bn_relu),
    "DeadCodeElimination": PassCase(_dead_binding),
    "Defunctionalization": PassCase(_products, must_change=False),
    "DefuseOps": PassCase(_conv_bias_relu, ("FuseOps",)),
    "DivToMul": PassCase(_division),
    "DynamicToStatic": PassCase(_dynamic_reshape),
    "EliminateCommonSubexpr": PassCase(_common_subexpression),
    "FakeQuantizationToInteger": PassCase(_quantized),
    "FastMath": PassCase(_attention),
    "FirstOrderGradient": PassCase(_products),
    "FlattenAtrousConv": PassCase(_atrous_conv),
    "FlexibleShapeDispatch": PassCase(_products),
    "FoldConstant": PassCase(_constant_subexpression),
    "FoldExplicitPadding": PassCase(_padded_conv),
    "FoldScaleAxis": PassCase(_conv_scale),
    "ForwardFoldScaleAxis": PassCase(_scale_conv),
    "FuseOps": PassCase(_conv_bias_relu),
    "Gradient": PassCase(_products),
    "LambdaLift": PassCase(_closure),
    "LazyGradientInit": PassCase(_chain, must_change=False, can_run=False),
    "LiftConstants": PassCase(_conv_bias_relu),
    "ManifestAlloc": PassCase(_chain, (f"{_OUR_PASSES}:PlanDevices", "ToANormalForm"), must_change=False),
    "ManifestLifetimes": PassCase(_products, ("ToANormalForm",)),
    "MergeComposite": PassCase(_conv_bias_relu),
    "PartialEvaluate": PassCase(_products, ("ToANormalForm",), must_change=False),
    "PartitionGraph": PassCase(_marked_region),
    "Recast": PassCase(_conv_bias_relu),
    "SimplifyExpr": PassCase(_double_reshape),
    "SimplifyFCTranspose": PassCase(_transposed_dense),
    "SimplifyInference": PassCase(_conv_bn_relu),
    "ToANormalForm": PassCase(_products),
    "ToCPS": PassCase(_products, ("ToANormalForm",)),
    "ToGraphNormalForm": PassCase(_products, ("ToANormalForm",)),
    "ToMixedPrecision": PassCase(_conv_bias_relu),
    "UnCPS": PassCase(_products, ("ToANormalForm", "tvm.relay.transform._ffi_api:ToCPS"), must_change=False),
    "qnn.CanonicalizeOps": PassCase(_quantized_dense),
    "qnn.Legalize": PassCase(_quantized_dense, must_change=False),
}


class _RelayCheck(EntryCheck):
    transforms = "tvm.relay.transform"
    cases = _CASES
    # Most catalog entries have a case. The others run on a common network, which they need not change.
    default_case = PassCase(_conv_bn_relu, must_change=False)
    errors = (
        tvm.TVMError,
        tvm.error.DiagnosticError,
        TypeError,
        ValueError,
        AttributeError,
        KeyError,
        AssertionError,
        ImportError,
        NotImplementedError,
        RuntimeError,
    )

    def target(self, text: str) -> Any:
        return tvm.target.Target(text)

    def make_module(self, network: Any) -> Any:
        return relay.transform.InferType()(tvm.IRModule.from_expr(network))

    def apply(self, transform: Any, module: Any) -> Any:
        copy = tvm.IRModule(module.functions, module.type_definitions)
        return relay.transform.InferType()(transform(copy))

    def hash(self, module: Any) -> int:
        return int(tvm.ir.structural_hash(module))

    def equal(self, left: Any, right: Any) -> bool:
        return bool(tvm.ir.structural_equal(left, right, map_free_vars=True))


check_entry = _RelayCheck.check_entry
