"""Relax catalog entries held against this TVM, each on a network made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

from passsearch.core import Json
from passsearch.dialects.entry_check import EntryCheck, Trial
from passsearch.dialects.relax.lowering import target_options

__all__ = ["check_entry"]

_LEVEL = 4


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
    return _RelaxCheck(target).problems(trial, factory=factory, arguments=arguments, opt_level=opt_level)


class _RelaxCheck(EntryCheck):
    passes = "tvm.relax.transform"
    faults = (
        RuntimeError,
        TypeError,
        ValueError,
        AttributeError,
        KeyError,
        IndexError,
        AssertionError,
        ImportError,
        NotImplementedError,
    )

    def __init__(self, target: str) -> None:
        self._target = tvm.target.Target(target_options(target))

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self._target, tvm.transform.PassContext(opt_level=_LEVEL):
            yield

    def module(self, network: Any) -> Any:
        return network

    def applied(self, transform: Any, module: Any) -> Any:
        return transform(module.clone())

    def hash(self, module: Any) -> int:
        return int(tvm_ffi.structural_hash(module))

    def equal(self, left: Any, right: Any) -> bool:
        return bool(tvm_ffi.structural_equal(left, right))


# The networks: as small as they can be and still have the feature.


def _network(inputs: Sequence[tuple[int, ...]], body: Callable[..., Any]) -> Any:
    """A module whose main computes ``body`` of inputs of these shapes; operators are emitted one by one."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(f"x{place}", relax.TensorType(shape, "float32")) for place, shape in enumerate(inputs)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = body(builder.emit, *variables)
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
    def body(emit: Any, data: Any) -> Any:
        norm = op.nn.batch_norm(emit(_conv(data)), _positive(16), _constant(16), _constant(16), _positive(16), axis=1)
        return emit(op.nn.relu(emit(relax.TupleGetItem(emit(norm), 0))))

    return _network([_IMAGE], body)


def _conv_bias_relu() -> Any:
    def body(emit: Any, data: Any) -> Any:
        return emit(op.nn.relu(emit(op.add(emit(_conv(data)), _constant(1, 16, 1, 1)))))

    return _network([_IMAGE], body)


def _constant_part() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.add(data, emit(op.exp(_constant(8))))))


def _alias() -> Any:
    def body(emit: Any, data: Any) -> Any:
        return emit(op.nn.relu(emit(emit(op.exp(data)))))

    return _network([(8,)], body)


def _dead_binding() -> Any:
    def body(emit: Any, data: Any) -> Any:
        emit(op.exp(data))
        return emit(op.nn.relu(data))

    return _network([(8,)], body)


def _common_subexpression() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.add(emit(op.exp(data)), emit(op.exp(data)))))


def _double_reshape() -> Any:
    def body(emit: Any, data: Any) -> Any:
        return emit(op.reshape(emit(op.reshape(data, (6, 4))), (24,)))

    return _network([(2, 3, 4)], body)


def _exponential() -> Any:
    return _network([(8,)], lambda emit, data: emit(op.exp(data)))


def _siblings() -> Any:
    def body(emit: Any, data: Any, *weights: Any) -> Any:
        return [emit(op.matmul(data, weight)) for weight in weights]

    return _network([(4, 8), (8, 16), (8, 16), (8, 16)], body)


def _transposed_product() -> Any:
    def body(emit: Any, data: Any, weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.permute_dims(weight))))

    return _network([(4, 8), (16, 8)], body)


def _joined_transposes() -> Any:
    def body(emit: Any, data: Any, *weights: Any) -> Any:
        turned = [emit(op.permute_dims(weight)) for weight in weights]
        return emit(op.matmul(data, emit(op.concat(turned, axis=1))))

    return _network([(4, 8), (16, 8), (16, 8)], body)


def _product_of_products() -> Any:
    def body(emit: Any, data: Any, left: Any, right: Any) -> Any:
        return emit(op.matmul(data, emit(op.matmul(left, right))))

    return _network([(1, 64), (64, 2), (2, 64)], body)


def _product_of_sum() -> Any:
    def body(emit: Any, data: Any, left: Any, right: Any) -> Any:
        return emit(op.matmul(data, emit(op.add(left, right))))

    return _network([(4, 8), (8, 16), (8, 16)], body)


def _softmax() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.nn.softmax(data)))


def _vector_product() -> Any:
    def body(emit: Any, data: Any, weight: Any) -> Any:
        return emit(op.matmul(data, emit(op.permute_dims(weight))))

    return _network([(1, 256), (256, 256)], body)


def _reshape_between() -> Any:
    def body(emit: Any, data: Any) -> Any:
        return emit(op.exp(emit(op.reshape(emit(op.exp(data)), (24,)))))

    return _network([(2, 3, 4)], body)


def _square_product() -> Any:
    return _network([(128, 128), (128, 128)], lambda emit, data, weight: emit(op.matmul(data, weight)))


def _rows_added() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.sum(data, -1)))


def _transposed() -> Any:
    return _network([(64, 128)], lambda emit, data: emit(op.permute_dims(data)))


def _loss() -> Any:
    def body(emit: Any, data: Any) -> Any:
        return emit(op.sum(emit(op.exp(data))))

    return _network([(2, 3)], body)


_LOOPS = ("LegalizeOps",)
_GROUPS = ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps")
_TRIALS: dict[str, Trial] = {
    "AdjustMatmulOrder": Trial(_product_of_products),
    "AnnotateTIROpPattern": Trial(_conv_bias_relu, _LOOPS),
    "CanonicalizeBindings": Trial(_alias),
    "CombineParallelMatmul": Trial(_siblings),
    "ConvertLayout": Trial(_conv_bias_relu),
    "DeadCodeElimination": Trial(_dead_binding),
    # Libraries, code generators and devices that no wheel of TVM and no small network has.
    "DispatchToLibrary": Trial(_conv_bias_relu, effect=False, runs=False),
    "adreno.OpenCLMLOffLoad": Trial(_conv_bias_relu, effect=False, runs=False),
    "adreno.OpenCLMLOffLoadForLLM": Trial(_conv_bias_relu, effect=False, runs=False),
    "UpdateVDevice": Trial(_conv_bias_relu, effect=False, runs=False),
    # Ends the process for any target but Adreno's.
    "adreno.AnnotateCustomMemoryScope": Trial(_conv_bias_relu, effect=False, runs=False),
    "DecomposeOpsForInference": Trial(_conv_bn_relu),
    "EliminateCommonSubexpr": Trial(_common_subexpression),
    "ExpandMatmulOfSum": Trial(_product_of_sum),
    "FastMathTransform": Trial(_exponential),
    "FoldBatchnormToConv2D": Trial(_conv_bn_relu),
    "FoldConstant": Trial(_constant_part, _LOOPS),
    "FuseOps": Trial(_conv_bias_relu, ("LegalizeOps", "AnnotateTIROpPattern")),
    "FuseOpsByPattern": Trial(_conv_bias_relu),
    "FuseTIR": Trial(_conv_bias_relu, _GROUPS),
    "FuseTransposeMatmul": Trial(_transposed_product),
    "Gradient": Trial(_loss),
    "LegalizeOps": Trial(_conv_bias_relu),
    # They read a database, or tune for minutes to make one.
    "MetaScheduleTuneIRMod": Trial(_conv_bias_relu, effect=False, runs=False),
    "MetaScheduleApplyDatabase": Trial(_conv_bias_relu, effect=False, runs=False),
    "MetaScheduleTuneTIR": Trial(_conv_bias_relu, effect=False, runs=False),
    "RemoveRedundantReshape": Trial(_double_reshape),
    "ReorderPermuteDimsAfterConcat": Trial(_joined_transposes),
    "RewriteDataflowReshape": Trial(_reshape_between, _LOOPS),
    "ScheduleCPU": Trial(_conv_bias_relu, (*_GROUPS, "FuseTIR")),
    "StaticPlanBlockMemory": Trial(_conv_bias_relu, _LOOPS),
    "ToMixedPrecision": Trial(_conv_bias_relu),
    "dlight.gpu.Fallback": Trial(_exponential, _LOOPS),
    "dlight.gpu.GEMV": Trial(_vector_product, ("FuseTransposeMatmul", "LegalizeOps")),
    "dlight.gpu.GeneralReduction": Trial(_softmax, _LOOPS),
    "dlight.gpu.Matmul": Trial(_square_product, _LOOPS),
    "dlight.gpu.Reduction": Trial(_rows_added, _LOOPS),
    "dlight.gpu.Transpose": Trial(_transposed, _LOOPS),
    "dlight.cpu.GEMV": Trial(_vector_product, ("FuseTransposeMatmul", "LegalizeOps"), effect=False),
    "dlight.cpu.Reduction": Trial(_softmax, _LOOPS),
}
