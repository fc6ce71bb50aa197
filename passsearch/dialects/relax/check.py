"""Test Relax catalog entries with this TVM, each on a small network made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from passsearch.dialects.entry_check import EntryCheck, PassCase
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.standalone.relax.deployment.lowering import target_options

__all__ = ["check_entry"]


# The networks are as small as possible and still have the feature that the pass is for.


def _network(inputs: Sequence[tuple[int, ...]], emit_network: Callable[..., Any]) -> Any:
    """Return a module whose main has inputs of these shapes and the operators that ``emit_network`` emits."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(f"x{place}", relax.TensorType(shape, "float32")) for place, shape in enumerate(inputs)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = emit_network(builder.emit, *variables)
            output = builder.emit_output(relax.Tuple(result) if isinstance(result, list) else result)
        builder.emit_func_output(output)
    return builder.get()


def _constant(*shape: int) -> Any:
    return relax.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def _positive(*shape: int) -> Any:
    return relax.const(np.full(shape, 0.5, "float32"))


_IMAGE = (1, 8, 8, 8)


def _conv(data: Any) -> Any:
    return op.nn.conv2d(data, _constant(16, 8, 3, 3), padding=1)


def _conv_bn_relu() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        norm = op.nn.batch_norm(emit(_conv(data)), _positive(16), _constant(16), _constant(16), _positive(16), axis=1)
        return emit(op.nn.relu(emit(relax.TupleGetItem(emit(norm), 0))))

    return _network([_IMAGE], emit_network)


def _conv_bias_relu() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.nn.relu(emit(op.add(emit(_conv(data)), _constant(1, 16, 1, 1)))))

    return _network([_IMAGE], emit_network)


def _transposed_convolution() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.nn.conv2d_transpose(data, _constant(8, 4, 2, 2), strides=2))

    return _network([_IMAGE], emit_network)


def _constant_subexpression() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.add(data, emit(op.exp(_constant(8))))))


def _alias() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.nn.relu(emit(emit(op.exp(data)))))

    return _network([(8,)], emit_network)


def _dead_binding() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        emit(op.exp(data))
        return emit(op.nn.relu(data))

    return _network([(8,)], emit_network)


def _common_subexpression() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.add(emit(op.exp(data)), emit(op.exp(data)))))


def _double_reshape() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.reshape(emit(op.reshape(data, (6, 4))), (24,)))

    return _network([(2, 3, 4)], emit_network)


def _exponential() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.exp(data)))


def _siblings() -> Any:
    def emit_network(emit: Any, data: Any, *weights: Any) -> Any:
        return [emit(op.matmul(data, weight)) for weight in weights]

    return _network([(4, 8), (8, 16), (8, 16), (8, 16)], emit_network)


def _products_of_constants() -> Any:
    return _network([(4, 8)], lambda emit, data: [emit(op.matmul(data, _constant(8, 16))) for _ in range(2)])


def _transposed_product() -> Any:
    def emit_network(emit: Any, data: Any, weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.permute_dims(weight))))

    return _network([(4, 8), (16, 8)], emit_network)


def _joined_transposes() -> Any:
    def emit_network(emit: Any, data: Any, *weights: Any) -> Any:
        transposed = [emit(op.permute_dims(weight)) for weight in weights]
        return emit(op.matmul(data, emit(op.concat(transposed, axis=1))))

    return _network([(4, 8), (16, 8), (16, 8)], emit_network)


def _product_of_products() -> Any:
    def emit_network(emit: Any, data: Any, first_weight: Any, second_weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.matmul(first_weight, second_weight))))

    return _network([(1, 64), (64, 2), (2, 64)], emit_network)


def _product_of_sum() -> Any:
    def emit_network(emit: Any, data: Any, first_weight: Any, second_weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.add(first_weight, second_weight))))

    return _network([(4, 8), (8, 16), (8, 16)], emit_network)


def _softmax() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.nn.softmax(data)))


def _layer_norm() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        centered = emit(op.subtract(data, emit(op.mean(data, -1, keepdims=True))))
        return emit(op.divide(centered, emit(op.mean(emit(op.multiply(centered, centered)), -1, keepdims=True))))

    return _network([(64, 128)], emit_network)


def _vector_product() -> Any:
    def emit_network(emit: Any, data: Any, weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.permute_dims(weight))))

    return _network([(1, 256), (256, 256)], emit_network)


def _reshape_between() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.exp(emit(op.reshape(emit(op.exp(data)), (24,)))))

    return _network([(2, 3, 4)], emit_network)


def _square_product() -> Any:
    return _network([(128, 128), (128, 128)], lambda emit, data, weight: emit(op.matmul(data, weight)))


def _rows_added() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.sum(data, -1)))


def _transposed() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.permute_dims(data)))


def _broadcast_exponential() -> Any:
    return _network([(128, 1), (128, 256)], lambda emit, data, rows: emit(op.add(rows, emit(op.exp(data)))))


def _attention() -> Any:
    def emit_network(emit: Any, query: Any, keys: Any, values: Any) -> Any:
        return emit(op.matmul(emit(op.nn.softmax(emit(op.matmul(query, keys)))), values))

    return _network([(12, 8), (8, 128), (128, 8)], emit_network)


def _tokens_as_image() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        image = emit(op.reshape(emit(op.permute_dims(data, [0, 2, 1])), (1, 8, 3, 4)))
        return emit(op.exp(emit(op.permute_dims(image, [0, 2, 3, 1]))))

    return _network([(1, 12, 8)], emit_network)


def _quantized_product() -> Any:
    scale, zero = relax.const(np.float32(0.5), "float32"), relax.const(np.uint8(3), "uint8")
    weights = relax.const(np.random.default_rng(0).integers(-9, 9, (8, 16)).astype("int8"), "int8")

    def emit_network(emit: Any, data: Any) -> Any:
        integers = emit(op.quantize(data, scale, zero, axis=-1, out_dtype="uint8"))
        floats = emit(op.dequantize(integers, scale, zero, axis=-1, out_dtype="float32"))
        factors = emit(op.dequantize(weights, scale, relax.const(np.int8(0), "int8"), axis=-1, out_dtype="float32"))
        return emit(op.matmul(floats, factors))

    return _network([(4, 8)], emit_network)


def _loss() -> Any:
    def emit_network(emit: Any, data: Any) -> Any:
        return emit(op.sum(emit(op.exp(data))))

    return _network([(2, 3)], emit_network)


_LOOPS = ("LegalizeOps",)
_GROUPS = ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps")
_INTEGERS = "passsearch.standalone.relax.integers:IntegerOperators"
_CASES: dict[str, PassCase] = {
    "AdjustMatmulOrder": PassCase(_product_of_products),
    "AnnotateTIROpPattern": PassCase(_conv_bias_relu, _LOOPS),
    "CancelTranspositions": PassCase(_tokens_as_image),
    "CanonicalizeBindings": PassCase(_alias),
    "CombineParallelMatmul": PassCase(_siblings),
    "ConvertLayout": PassCase(_conv_bias_relu),
    "CutFusion": PassCase(_broadcast_exponential, ("LegalizeOps", "AnnotateTIROpPattern")),
    "DeadCodeElimination": PassCase(_dead_binding),
    # These need libraries, code generators or devices that no wheel of TVM and no small network has.
    "DispatchToLibrary": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "adreno.OpenCLMLOffLoad": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "adreno.OpenCLMLOffLoadForLLM": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "UpdateVDevice": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    # Crashes for any target but Adreno's.
    "adreno.AnnotateCustomMemoryScope": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "DecomposeOpsForInference": PassCase(_conv_bn_relu),
    "EliminateCommonSubexpr": PassCase(_common_subexpression),
    "ExpandMatmulOfSum": PassCase(_product_of_sum),
    "FastMathTransform": PassCase(_exponential),
    "FoldBatchnormToConv2D": PassCase(_conv_bn_relu),
    "FoldConstant": PassCase(_constant_subexpression, _LOOPS),
    "FuseAttention": PassCase(_attention),
    "FuseOps": PassCase(_conv_bias_relu, ("LegalizeOps", "AnnotateTIROpPattern")),
    "FuseOpsByPattern": PassCase(_conv_bias_relu),
    "FuseRows": PassCase(_layer_norm, ("LegalizeOps", "AnnotateTIROpPattern")),
    "FuseTIR": PassCase(_conv_bias_relu, _GROUPS),
    "FuseTransposeMatmul": PassCase(_transposed_product),
    "Gradient": PassCase(_loss),
    "IntegerOperators": PassCase(_quantized_product),
    "LegalizeOps": PassCase(_conv_bias_relu),
    "MergeProducts": PassCase(_products_of_constants),
    # These read a tuning database, or tune for minutes to make one.
    "MetaScheduleTuneIRMod": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "MetaScheduleApplyDatabase": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "MetaScheduleTuneTIR": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "PairProducts": PassCase(_quantized_product, (_INTEGERS, *_GROUPS, "FuseTIR")),
    "RemoveRedundantReshape": PassCase(_double_reshape),
    "ReorderPermuteDimsAfterConcat": PassCase(_joined_transposes),
    # It reads the user's file.
    "ReplaceKernel": PassCase(_conv_bias_relu, must_change=False, can_run=False),
    "RewriteDataflowReshape": PassCase(_reshape_between, _LOOPS),
    "ScheduleCPU": PassCase(_conv_bias_relu, (*_GROUPS, "FuseTIR")),
    "ScheduleRows": PassCase(_softmax, _LOOPS),
    "StaticPlanBlockMemory": PassCase(_conv_bias_relu, _LOOPS),
    "SubpixelConvolution": PassCase(_transposed_convolution),
    "ToMixedPrecision": PassCase(_conv_bias_relu),
    "dlight.gpu.Fallback": PassCase(_exponential, _LOOPS),
    "dlight.gpu.GEMV": PassCase(_vector_product, ("FuseTransposeMatmul", "LegalizeOps")),
    "dlight.gpu.GeneralReduction": PassCase(_softmax, _LOOPS),
    "dlight.gpu.Matmul": PassCase(_square_product, _LOOPS),
    "dlight.gpu.Reduction": PassCase(_rows_added, _LOOPS),
    "dlight.gpu.Transpose": PassCase(_transposed, _LOOPS),
    "dlight.cpu.GEMV": PassCase(_vector_product, ("FuseTransposeMatmul", "LegalizeOps"), must_change=False),
    "dlight.cpu.Reduction": PassCase(_softmax, _LOOPS),
}


class _RelaxCheck(EntryCheck):
    transforms = "tvm.relax.transform"
    cases = _CASES
    # Most catalog entries have a case. The others run on a common network, which they need not change.
    default_case = PassCase(_conv_bn_relu, must_change=False)
    errors = (*COMPILER_ERRORS, ImportError)

    def target(self, text: str) -> Any:
        return tvm.target.Target(target_options(text))

    def make_module(self, network: Any) -> Any:
        return network

    def apply(self, transform: Any, module: Any) -> Any:
        return transform(module.clone())

    def hash(self, module: Any) -> int:
        return int(tvm_ffi.structural_hash(module))

    def equal(self, left: Any, right: Any) -> bool:
        return bool(tvm_ffi.structural_equal(left, right))


check_entry = _RelaxCheck.check_entry
