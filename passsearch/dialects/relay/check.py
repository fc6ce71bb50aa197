"""Relay catalog entries held against this TVM, each on a network made for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
from tvm import relay

from passsearch.core import Json
from passsearch.dialects.entry_check import EntryCheck, Trial

__all__ = ["check_entry"]

_LEVEL = 4
_OURS = "passsearch.dialects.relay.passes"


def check_entry(
    name: str,
    *,
    factory: str,
    arguments: Sequence[Mapping[str, Json]],
    opt_level: int,
    target: str = "llvm",
) -> list[str]:
    """Problems of one entry, each in a sentence; none if it holds.

    Args:
        name: The pass; chooses the network it is tried on.
        factory: ``module:function``.
        arguments: Each set of arguments to bind and run, the defaults first.
        opt_level: The level the entry claims.
        target: TVM target in scope while passes run.
    """
    trial = _TRIALS.get(name, Trial(_conv_bn_relu, effect=False))
    return _RelayCheck(target).problems(trial, factory=factory, arguments=arguments, opt_level=opt_level)


class _RelayCheck(EntryCheck):
    passes = "tvm.relay.transform"
    faults = (
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

    def __init__(self, target: str) -> None:
        self._target = tvm.target.Target(target)

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self._target, tvm.transform.PassContext(opt_level=_LEVEL):
            yield

    def module(self, network: Any) -> Any:
        return relay.transform.InferType()(tvm.IRModule.from_expr(network))

    def applied(self, transform: Any, module: Any) -> Any:
        copy = tvm.IRModule(module.functions, module.type_definitions)
        return relay.transform.InferType()(transform(copy))

    def hash(self, module: Any) -> int:
        return int(tvm.ir.structural_hash(module))

    def equal(self, left: Any, right: Any) -> bool:
        return bool(tvm.ir.structural_equal(left, right, map_free_vars=True))


# The networks: as small as they can be and still have the feature.


def _constant(*shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(shape) if dtype.startswith("float") else rng.integers(-9, 9, shape)
    return relay.const(drawn.astype(dtype))


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


def _constant_part() -> Any:
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


_TRIALS: dict[str, Trial] = {
    "AlterOpLayout": Trial(_conv_bn_relu, ("SimplifyInference",)),
    "AnnotateTarget": Trial(_conv_bias_relu, effect=False),
    "BackwardFoldScaleAxis": Trial(_conv_scale),
    "BatchingOps": Trial(_sibling_dense),
    "CanonicalizeCast": Trial(_shared_cast),
    "CanonicalizeOps": Trial(_conv_bias_relu),
    "ChangeBatch": Trial(_conv_bias_relu),
    "CollagePartition": Trial(_products, effect=False),
    "CombineParallelBatchMatmul": Trial(_sibling_batch_matmul),
    "CombineParallelConv2D": Trial(_sibling_conv),
    "CombineParallelDense": Trial(_sibling_dense),
    "CombineParallelOpBatch": Trial(_sibling_add, effect=False),
    "ConvertLayout": Trial(_conv_bn_relu),
    "DeadCodeElimination": Trial(_dead_binding),
    "Defunctionalization": Trial(_products, effect=False),
    "DefuseOps": Trial(_conv_bias_relu, ("FuseOps",)),
    "DivToMul": Trial(_division),
    "DynamicToStatic": Trial(_dynamic_reshape),
    "EliminateCommonSubexpr": Trial(_common_subexpression),
    "FakeQuantizationToInteger": Trial(_quantized),
    "FastMath": Trial(_attention),
    "FirstOrderGradient": Trial(_products),
    "FlattenAtrousConv": Trial(_atrous_conv),
    "FlexibleShapeDispatch": Trial(_products),
    "FoldConstant": Trial(_constant_part),
    "FoldExplicitPadding": Trial(_padded_conv),
    "FoldScaleAxis": Trial(_conv_scale),
    "ForwardFoldScaleAxis": Trial(_scale_conv),
    "FuseOps": Trial(_conv_bias_relu),
    "Gradient": Trial(_products),
    "LambdaLift": Trial(_closure),
    "LazyGradientInit": Trial(_chain, effect=False, runs=False),
    "LiftConstants": Trial(_conv_bias_relu),
    "ManifestAlloc": Trial(_chain, (f"{_OURS}:PlanDevices", "ToANormalForm"), effect=False),
    "ManifestLifetimes": Trial(_products, ("ToANormalForm",)),
    "MergeComposite": Trial(_conv_bias_relu),
    "PartialEvaluate": Trial(_products, ("ToANormalForm",), effect=False),
    "PartitionGraph": Trial(_marked_region),
    "Recast": Trial(_conv_bias_relu),
    "SimplifyExpr": Trial(_double_reshape),
    "SimplifyFCTranspose": Trial(_transposed_dense),
    "SimplifyInference": Trial(_conv_bn_relu),
    "ToANormalForm": Trial(_products),
    "ToCPS": Trial(_products, ("ToANormalForm",)),
    "ToGraphNormalForm": Trial(_products, ("ToANormalForm",)),
    "ToMixedPrecision": Trial(_conv_bias_relu),
    "UnCPS": Trial(_products, ("ToANormalForm", "tvm.relay.transform._ffi_api:ToCPS"), effect=False),
    "qnn.CanonicalizeOps": Trial(_quantized_dense),
    "qnn.Legalize": Trial(_quantized_dense, effect=False),
}
