"""Importer of ONNX files."""

from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import patch

import onnx
import tvm
from tvm import relay
from tvm.relay.frontend import common
from tvm.relay.frontend import onnx as onnx_frontend
from tvm.relay.frontend.onnx import GraphProto

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.onnx_nodes import checked, name_nodes, write_tensors
from passsearch.dialects.onnx_scales import check_scales
from passsearch.dialects.onnx_widening import must_widen, widen
from passsearch.dialects.refusal import BY_MASK, INTEGER_OPERATORS
from passsearch.dialects.relay.errors import IMPORT_ERRORS
from passsearch.dialects.relay.importer import tensor_type
from passsearch.dialects.relay.importers.local_inference import local_inference
from passsearch.dialects.relay.importers.onnx_converters import WITH_INDICES, with_own


def read(source: ModelSource, *, widens: bool = False) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the graph, its weights as constants; that of 16-bit floats computes in float32 if it ``widens``."""
    # The front end has read the file before, so an unreadable file does not reach this line.
    model = onnx.load(str(source.path))
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    if any(value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for value in model.graph.output):
        # Casts to it are casts to float32 here (`onnx.mapping`), so outputs would not be rounded.
        raise NotImplementedError("outputs in bfloat16 are not supported; convert them to float32 or float16")
    if must_widen(model, is_cpu=widens):
        widen(model, source.path.parent)
    write_tensors(model)
    nodes = name_nodes(model, source.inputs)
    check_scales(model, nodes, source.inputs, folder=source.path.parent)
    for node in model.graph.node:
        if node.op_type == "MaxPool" and "".join(node.output[1:]):
            node.op_type = WITH_INDICES
    convert = checked(GraphProto._convert_operator, nodes=nodes, types_of=_types, errors=IMPORT_ERRORS)
    # TVM has no interface to replace a converter, so its table is patched during the import. TVM also calls ONNX's
    # checker, which writes out the whole network with its weights, and only prints its answer; so it is left out.
    converters = with_own(onnx_frontend._get_convert_map)
    try:
        with (
            patch.object(onnx.checker, "check_model"),
            patch.object(onnx_frontend, "_get_convert_map", converters),
            patch.object(GraphProto, "_convert_operator", convert),
            patch.object(GraphProto, "_fix_outputs", lambda _, kind, outputs: outputs),  # it removes Dropout's mask
            local_inference(onnx_frontend),
        ):
            module, params = relay.frontend.from_onnx(model, shape=shapes, dtype=types or "float32", freeze_params=True)
    except IMPORT_ERRORS as error:
        _refuse(_integer_operators(model))
        if "free variables" in str(error):
            raise NotImplementedError("an input goes into a list of tensors or an optional, which TVM loses") from error
        raise
    if (names := _integer_operators(model)) and _dtypes(module) != _declared_dtypes(model):
        _refuse(names)
    _refuse_open_inputs(module)
    _refuse_dependence_on_data(module)
    return module, params


def _refuse_open_inputs(module: tvm.IRModule) -> None:
    """Raise an error for an input of a size that is not known, or of 0, whose loops TVM does not build or run right."""
    for variable in module["main"].params:
        if _is_open(variable.type_annotation) or 0 in variable.type_annotation.shape:
            raise NotImplementedError(f"a size of the input `{variable.name_hint}` is open or 0; give it another size")


def _types(converted: Any) -> Sequence[TensorType | None]:
    """Return the types of what the conversion of a node returns, ``None`` for one that is no tensor."""
    if isinstance(converted, relay.expr.TupleWrapper):
        converted = converted.astuple()
    kind = common.infer_type(converted).checked_type
    kinds = kind.fields if isinstance(kind, tvm.ir.TupleType) else [kind]
    return [tensor_type(each) if isinstance(each, tvm.ir.TensorType) else None for each in kinds]


def _refuse_dependence_on_data(module: tvm.IRModule) -> None:
    """Raise an error for what a graph of fixed calls and sizes cannot express, which TVM's build says in other words.

    Raises:
        NotImplementedError: The network has a branch, or an operator whose result has a size that depends on values.
    """
    found: list[str] = []

    def visit(node: relay.Expr) -> None:
        if isinstance(node, relay.If):
            found.append("`If` takes a branch by a value; export the network by tracing, or with a constant condition")
        elif isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op) and _opens(node):
            found.append(f"the size of the result of `{node.op.name}` depends on values; {BY_MASK}")

    relay.analysis.post_order_visit(relay.transform.InferType()(module)["main"], visit)
    for reason in found[:1]:
        raise NotImplementedError(f"Relay builds fixed graphs, and {reason}")


def _opens(call: relay.Call) -> bool:
    """Return True for a call whose result has an unknown size, although its arguments have none."""
    return _is_open(call.checked_type) and not any(_is_open(argument.checked_type) for argument in call.args)


def _is_open(kind: tvm.ir.Type) -> bool:
    """Return True for tensors of which a size is not known."""
    if isinstance(kind, tvm.ir.TupleType):
        return any(map(_is_open, kind.fields))
    return isinstance(kind, tvm.ir.TensorType) and any(isinstance(size, tvm.tir.Any) for size in kind.shape)


def _refuse(names: Sequence[str]) -> None:
    """Raise the error for operators that the importer lacks, if there are any.

    Some builds of TVM import ``QLinearConv`` and its like without rounding the result to integers. The next operator
    then fails in words that do not name the cause, or the outputs have another type than the file declares.
    """
    if names:
        raise NotImplementedError(f"The following operators are not supported: {', '.join(names)}")


def _integer_operators(model: onnx.ModelProto) -> list[str]:
    return sorted({node.op_type for node in model.graph.node if INTEGER_OPERATORS.search(node.op_type)})


def _dtypes(module: tvm.IRModule) -> list[str]:
    kind = relay.transform.InferType()(module)["main"].ret_type
    return [each.dtype for each in (kind.fields if isinstance(kind, tvm.ir.TupleType) else [kind])]


def _declared_dtypes(model: onnx.ModelProto) -> list[str]:
    kinds = (onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type) for value in model.graph.output)
    return [{"FLOAT": "float32", "DOUBLE": "float64"}.get(kind, kind.lower()) for kind in kinds]
