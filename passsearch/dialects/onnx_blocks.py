"""Weights of ONNX networks with a scale for each block, written out as floats before an importer reads the network.

``MatMulNBits`` of ONNX Runtime and block-wise ``DequantizeLinear`` have integers of 4 or 8 bits, and for each block a
scale and perhaps a zero point. No importer of TVM reads them. Here constants become the floats they stand for, and
a pass that narrows weights may store them in few bits again. Needs no TVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from passsearch.dialects import onnx_weights
from passsearch.dialects.contract import Array

NBITS, DEQUANTIZE = "MatMulNBits", "DequantizeLinear"

BITS = (4, 8)
"""Bits of the numbers of MatMulNBits that are read."""

NARROW = frozenset({TensorProto.INT4, TensorProto.UINT4})
"""Types that importers do not read."""


def write_blocks(model: onnx.ModelProto, folder: Path) -> None:
    """Replace weights with a scale for each block by floats.

    Args:
        model: The network.
        folder: Folder of its file, where other files may have its weights.

    Raises:
        NotImplementedError: Such a node has weights that are computed, or is of a kind that is not read.
    """
    constants = constant_tensors(model)
    written: list[NodeProto] = []
    for node in model.graph.node:
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == NBITS and node.domain == "com.microsoft":
            written += _product(model, node, attributes, Constants(constants, folder, node))
        elif node.op_type == DEQUANTIZE and attributes.get("block_size", 0):
            found = Constants(constants, folder, node)
            model.graph.initializer.append(numpy_helper.from_array(_in_blocks(attributes, found), node.output[0]))
        else:
            written.append(node)
    if len(written) == len(model.graph.node) and all(a is b for a, b in zip(written, model.graph.node, strict=True)):
        return
    kept = [NodeProto.FromString(node.SerializeToString()) for node in written]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    _drop_unused(model)


def constant_tensors(model: onnx.ModelProto) -> dict[str, TensorProto]:
    """Return the constants of a network by name."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    constants |= {
        node.output[0]: node.attribute[0].t
        for node in model.graph.node
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value"
    }
    return constants


def _drop_unused(model: onnx.ModelProto) -> None:
    """Drop the integers that no node reads any more; importers do not read all of their types."""
    used = {name for node in model.graph.node for name in node.input} | {each.name for each in model.graph.output}
    for place in reversed(range(len(model.graph.initializer))):
        if model.graph.initializer[place].name not in used:
            del model.graph.initializer[place]
    nodes = [node for node in model.graph.node if node.op_type != "Constant" or node.output[0] in used]
    if len(nodes) < len(model.graph.node):
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)


class Constants:
    """The constant inputs of one node."""

    def __init__(self, tensors: Mapping[str, TensorProto], folder: Path, node: NodeProto) -> None:
        self._tensors, self._folder, self.node = tensors, folder, node

    @property
    def name(self) -> str:
        """The operator and the node, as messages name them."""
        return f"Operator {self.node.op_type} `{self.node.name or self.node.output[0]}`"

    def refuse(self, reason: str) -> NotImplementedError:
        """Return the error of the node."""
        return NotImplementedError(f"{self.name}: {reason}")

    def has(self, place: int) -> bool:
        """Return whether the node has an input at this place."""
        return len(self.node.input) > place and bool(self.node.input[place])

    def array(self, place: int, what: str) -> Array:
        """Return the value of the input at this place.

        Raises:
            NotImplementedError: It is computed.
        """
        array = self.known(place)
        if array is None:
            raise self.refuse(f"its {what} are computed at run time, and have to be constant")
        return array

    def known(self, place: int) -> Array | None:
        """Return the value of the input at this place; ``None`` where it is computed or left out."""
        tensor = self._tensors.get(self.node.input[place]) if self.has(place) else None
        if tensor is None:
            return None
        if onnx_weights.is_mapped(tensor) and tensor.data_type not in NARROW:
            return onnx_weights.mapped_array(tensor, self._folder)
        array: Array = numpy_helper.to_array(tensor, str(self._folder))
        return array

    def stored(self, place: int) -> Sequence[int]:
        """Return the integers of the file where it stores narrow ones in 32 bits, which may be beyond their type."""
        return self._tensors[self.node.input[place]].int32_data

    def scales(self, place: int) -> Array:
        """Return the scales, all of them finite."""
        scales = self.array(place, "scales")
        if not np.isfinite(scales.astype("float32")).all():
            raise self.refuse("a scale is infinite or NaN")
        return scales

    def values(self, steps: Array, scales: Array) -> Array:
        """Return numbers of steps by their scales, which may be 0 for zeros only."""
        if (steps[np.broadcast_to(scales.astype("float32") == 0, steps.shape)] != 0).any():
            raise self.refuse("a scale is 0, and its numbers are not")
        values: Array = (steps.astype("float32") * scales.astype("float32")).astype(scales.dtype)
        return values


def _in_blocks(attributes: Mapping[str, Any], constants: Constants) -> Array:
    """Return the floats that a block-wise DequantizeLinear stands for."""
    integers, scales = constants.array(0, "numbers").astype("int32"), constants.scales(1)
    zeros = constants.array(2, "zero points").astype("int32") if constants.has(2) else np.zeros(scales.shape, "int32")
    axis, size = int(attributes.get("axis", 1)), int(attributes["block_size"])
    axis += integers.ndim if axis < 0 else 0
    wanted = list(integers.shape)
    if not 0 <= axis < integers.ndim:
        raise constants.refuse(f"there is no axis {axis} in numbers of shape {wanted}")
    wanted[axis] = -(-wanted[axis] // size)
    if list(scales.shape) != wanted or zeros.shape != scales.shape:
        shapes = f"scales {list(scales.shape)} and zero points {list(zeros.shape)}"
        raise constants.refuse(f"{shapes} do not fit blocks of {size}, which need {wanted}")

    def spread(blocks: Array) -> Array:
        return np.take(np.repeat(blocks, size, axis=axis), range(integers.shape[axis]), axis=axis)

    return constants.values(integers - spread(zeros), spread(scales))


def _product(
    model: onnx.ModelProto, node: NodeProto, attributes: Mapping[str, Any], constants: Constants
) -> list[NodeProto]:
    """Return the product that a MatMulNBits stands for, and add its weights to the constants of the network."""
    if constants.has(4):
        raise constants.refuse("an order of groups (g_idx) is not supported; quantise the network without it")
    weights = f"{node.output[0]}.weights"
    model.graph.initializer.append(numpy_helper.from_array(_nbits_weights(attributes, constants), weights))
    product = f"{node.output[0]}.product" if constants.has(5) else node.output[0]
    nodes = [helper.make_node("MatMul", [node.input[0], weights], [product], name=node.name)]
    if constants.has(5):
        nodes.append(helper.make_node("Add", [product, node.input[5]], [node.output[0]], name=f"{node.name}.bias"))
    return nodes


def _nbits_weights(attributes: Mapping[str, Any], constants: Constants) -> Array:
    """Return the weights of a MatMulNBits as ``[K, N]``.

    Each column is stored in blocks along the sum, the lower bits of a byte first.
    """
    rows, columns, bits = int(attributes["K"]), int(attributes["N"]), int(attributes.get("bits", 4))
    size = int(attributes["block_size"])
    if bits not in BITS:
        raise constants.refuse(f"numbers of {bits} bits are not supported, only those of 4 and 8")
    blocks = -(-rows // size)
    packed, scales = constants.array(1, "numbers"), constants.scales(2)
    if packed.size != columns * blocks * size * bits // 8 or scales.size != columns * blocks:
        raise constants.refuse(
            f"numbers {list(packed.shape)} and scales {list(scales.shape)} do not fit K={rows}, N={columns} and blocks "
            f"of {size}"
        )
    steps = _unpacked(packed.reshape(columns, -1), bits).reshape(columns, blocks, size)
    steps = steps - _nbits_zeros(constants, columns, blocks, bits)[..., None]
    # What fills the last block stands for nothing.
    steps.reshape(columns, -1)[:, rows:] = 0
    values = constants.values(steps, scales.reshape(columns, blocks, 1))
    return np.ascontiguousarray(values.reshape(columns, -1)[:, :rows].T)


def _nbits_zeros(constants: Constants, columns: int, blocks: int, bits: int) -> Array:
    """Return the zero point of each block: floats as they are, bytes unpacked, the middle of the range without any."""
    if not constants.has(3):
        return np.full((columns, blocks), 2 ** (bits - 1), "int32")
    zeros = constants.array(3, "zero points")
    if zeros.dtype != np.uint8:
        if zeros.size != columns * blocks:
            raise constants.refuse(f"zero points {list(zeros.shape)} are not one for each of {columns * blocks} blocks")
        if not np.isfinite(zeros.astype("float32")).all():
            raise constants.refuse("a zero point is infinite or NaN")
        return zeros.astype("float32").reshape(columns, blocks)
    width = -(-blocks * bits // 8)
    if zeros.size != columns * width:
        raise constants.refuse(f"zero points {list(zeros.shape)} are not {width} bytes for each of {columns} columns")
    return _unpacked(zeros.reshape(columns, width), bits)[:, :blocks]


def _unpacked(packed: Array, bits: int) -> Array:
    """Return the numbers in rows of bytes, the one in the lower bits first."""
    if bits == 8:
        return packed.astype("int32")
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1).astype("int32")
