"""Winograd's algorithm for 3 by 3 convolutions of stride 1: fewer multiplications, in exchange for cheap transforms.

A tile of ``size`` by ``size`` outputs takes ``(size + 2)`` squared products instead of ``9 * size`` squared: 2.25 times
fewer for tiles of 2, 4 times fewer for tiles of 4 (Lavin and Gray, *Fast algorithms for convolutional neural networks*,
CVPR 2016, whose matrices for tiles of 2 these are). Tiles of 4 interpolate at 0, 3/4, -3/4, 3/2, -3/2, infinity. With
1 and 2 in place of 3/4 and 3/2, as in that paper, the largest rounding error is four times as large (about such points:
Barabasz et al., *Error analysis and improving the accuracy of Winograd convolution for deep neural networks*, 2020).
Three kernels take the place of a convolution: the transform of the data, one matrix product for each place in a tile,
and the transform of the products, which fuses with the operators after it. Weights are transformed at compile time, in
float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

KERNEL = 3
"""Height and width of the convolutions' kernels."""

DATA = {
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (81 / 64, 0, -45 / 16, 0, 1, 0),
        (0, -27 / 16, -9 / 4, 3 / 4, 1, 0),
        (0, 27 / 16, -9 / 4, -3 / 4, 1, 0),
        (0, -27 / 32, -9 / 16, 3 / 2, 1, 0),
        (0, 27 / 32, -9 / 16, -3 / 2, 1, 0),
        (0, 81 / 64, 0, -45 / 16, 0, 1),
    ),
}
"""The matrix that transforms data, by the size of a tile. All numbers are exact in float32."""

WEIGHTS = {
    2: ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)),
    4: (
        (64 / 81, 0, 0),
        (-128 / 243, -32 / 81, -8 / 27),
        (-128 / 243, 32 / 81, -8 / 27),
        (32 / 243, 16 / 81, 8 / 27),
        (32 / 243, -16 / 81, 8 / 27),
        (0, 0, 1),
    ),
}
"""The matrix that transforms weights."""

PRODUCTS = {
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: (
        (1, 1, 1, 1, 1, 0),
        (0, 3 / 4, -3 / 4, 3 / 2, -3 / 2, 0),
        (0, 9 / 16, 9 / 16, 9 / 4, 9 / 4, 0),
        (0, 27 / 64, -27 / 64, 27 / 8, -27 / 8, 1),
    ),
}
"""The matrix that transforms products."""

TILE = "passsearch.tile"
"""Annotation of a block that is computed for one tile at a time: the size of a tile along the axes of the output."""

FUSES_WITH_ELEMENTWISE, FUSES_WITH_NOTHING = 4, 8
"""Values of the attribute ``op_pattern``, by which TVM decides on fusion (``OpPatternKind``)."""


def Winograd(  # noqa: N802
    convolutions: Mapping[str, int] | None = None,
    size: int = 0,
    least_tiles: int = 1,
    least_channels: int = 1,
    least_saved: int = 0,
) -> Any:
    """Return a pass that computes convolutions of channels last by Winograd's algorithm.

    Args:
        convolutions: The size of a tile for single convolutions, 0 for a direct convolution, by the place of the
            convolution among all convolutions of the network, as text.
        size: The size of a tile for all others.
        least_tiles: Least number of tiles, over all images of a batch, of a convolution that is not named. With fewer
            tiles of 4 it gets tiles of 2, and with fewer of these it is computed directly. All transformed weights, 4
            or 1.8 times as large as the weights, are read however few tiles use them, so that with few tiles reading
            takes longer than the products.
        least_channels: Least number of input and of output channels of a convolution that is not named. The transforms
            take as long for each channel, however few products they save.
        least_saved: Least number of multiplications that the algorithm must save in a convolution that is not named:
            two more kernels take as long as one or two million.

    Raises:
        ValueError: A size is not 0, 2 or 4, ``least_tiles`` or ``least_channels`` is less than 1, or there is no
            fitting convolution at a place.
    """
    sizes = {int(place): value for place, value in (convolutions or {}).items()}
    wrong = [value for value in (size, *sizes.values()) if value and value not in DATA]
    if wrong:
        raise ValueError(f"a tile has size 0, 2 or 4; got {wrong[0]}")

    for name, value in (("least_tiles", least_tiles), ("least_channels", least_channels)):
        if value < 1:
            raise ValueError(f"`{name}` of Winograd is 1 or more; got {value}")

    def convert(module: Any, _context: Any) -> Any:
        writer = _Writer(module, sizes, size, (least_tiles, least_channels, least_saved))
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        if unknown := set(sizes) - set(writer.fitting):
            raise ValueError(f"convolution {min(unknown)} does not fit Winograd's algorithm; {list(writer.fitting)} do")
        return writer.builder_.finalize()

    return tvm.transform.module_pass(convert, opt_level=0, name="Winograd")


def regions(module: Any) -> list[dict[str, str]]:
    """Return ``key`` (the number) and ``like`` (shapes, padding) of each convolution that ``Winograd`` can compute."""
    writer = _Writer(module, {}, 0, (1, 1, 0))
    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            writer.visit_expr(function)
    return [{"key": str(place), "like": digest} for place, digest in writer.fitting.items()]


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces convolutions and numbers them.

    Attributes:
        fitting: Shapes and attributes of the convolutions that the algorithm can compute, by place.
    """

    def __init__(self, module: Any, sizes: Mapping[int, int], size: int, least: tuple[int, int, int]) -> None:
        super().__init__(module)
        self._sizes, self._size, self._count = sizes, size, 0
        self._least_tiles, self._least_channels, self._least_saved = least
        self.fitting: dict[int, str] = {}

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.nn.conv2d":
            return call
        place, self._count = self._count, self._count + 1
        if not _fits(call):
            return call
        self.fitting[place] = _describe(call)
        size = self._sizes[place] if place in self._sizes else self._usual_size(call)
        return self._convolution(call, size) if size else call

    def _usual_size(self, call: Any) -> int:
        """Return the size of the tiles of a convolution that is not named."""
        batch, height, width, outputs = (int(extent) for extent in call.ty.shape.values)
        inputs = int(call.args[0].ty.shape.values[-1])
        if min(inputs, outputs) < self._least_channels:
            return 0
        for size in (size for size in sorted(DATA, reverse=True) if size <= self._size):
            tiles = batch * _tiles(height, size) * _tiles(width, size)
            saved = (KERNEL**2 * batch * height * width - (size + KERNEL - 1) ** 2 * tiles) * inputs * outputs
            if tiles >= self._least_tiles and saved >= self._least_saved:
                return size
        return 0

    def _convolution(self, call: Any, size: int) -> Any:
        data, weights = call.args
        builder, top, left = self.builder_, int(call.attrs.padding[0]), int(call.attrs.padding[1])
        shape = [int(extent) for extent in call.ty.shape.values]
        of_data = te.placeholder(data.ty.shape.values, "float32", name="data")
        transformed = builder.emit(
            self._call(
                "winograd_data",
                of_data,
                _transform_data(of_data, size, shape[1:3], (top, left)),
                FUSES_WITH_NOTHING,
                data,
            )
        )
        kernel = relax.const(_transform_weights(weights.value.numpy(), size), "float32")
        products = builder.emit(relax.op.matmul(transformed, kernel))
        of_products = te.placeholder(products.ty.shape.values, "float32", name="products")
        result = _transform_products(of_products, size, call.ty.shape.values)
        return self._call("winograd_products", of_products, result, FUSES_WITH_ELEMENTWISE, products)

    def _call(self, name: str, operand: Any, result: Any, pattern: int, argument: Any) -> Any:
        """Return a call of the function that computes ``result`` from ``operand``.

        The pattern tells TVM how the function fuses: it does not analyse functions of several blocks.
        """
        function = te.create_prim_func([operand, result]).with_attr("op_pattern", pattern)
        # The builder returns the function that it has already if an equal one was added before.
        variable = self.builder_.add_func(function.without_attr("global_symbol"), name)
        kind = relax.TensorType([int(extent) for extent in result.shape], "float32")
        return relax.call_tir(variable, (argument,), kind)


def _fits(call: Any) -> bool:
    """Return True for a float32 convolution of 3 by 3, stride 1, channels last, with constant weights.

    One of a single channel has no product of matrices to save multiplications in.
    """
    attributes, (data, weights) = call.attrs, call.args
    is_plain = attributes.groups == 1 and {int(step) for step in (*attributes.strides, *attributes.dilation)} == {1}
    if not (is_plain and isinstance(weights, tvm.ir.GenericConst) and all(map(_is_static, (data.ty, call.ty)))):
        return False
    if (attributes.data_layout, attributes.kernel_layout) != ("NHWC", "HWIO"):
        return False
    height, width, inputs, outputs = (int(extent) for extent in weights.ty.shape.values)
    return bool(
        str(data.ty.dtype) == str(call.ty.dtype) == "float32"
        and (height, width) == (KERNEL, KERNEL)
        and min(inputs, outputs) > 1
    )


def _is_static(kind: Any) -> bool:
    """Return True for a tensor of known sizes; of some, such as the result of ``NonZero``, only the rank is known."""
    return isinstance(kind.shape, relax.ShapeExpr) and all(
        isinstance(extent, tirx.IntImm) for extent in kind.shape.values
    )


def _describe(call: Any) -> str:
    """Return the shapes and the padding, which decide what a convolution costs."""
    shapes = ["x".join(str(extent) for extent in operand.ty.shape.values) for operand in call.args]
    return f"{' '.join(shapes)} padding {'.'.join(str(width) for width in call.attrs.padding)}"


def _transform_weights(weights: Any, size: int) -> Any:
    """Return weights ``[3, 3, inputs, outputs]`` as ``[places, inputs, outputs]``."""
    matrix = np.array(WEIGHTS[size], "float64")
    transformed = np.einsum("xr,ys,rsio->xyio", matrix, matrix, weights.astype("float64"))
    return transformed.reshape(-1, *weights.shape[2:]).astype("float32")


def _transform_data(data: Any, size: int, extents: Sequence[int], padding: Sequence[int]) -> Any:
    """Return data ``[batch, height, width, channels]`` as ``[places, tiles, channels]``."""
    batch, height, width, channels = (int(extent) for extent in data.shape)
    matrix, (top, left) = DATA[size], padding
    rows, columns = (_tiles(extent, size) for extent in extents)
    span = size + KERNEL - 1

    def padded(tile: Any, y: Any, x: Any, channel: Any) -> Any:
        image, place = tile // (rows * columns), tile % (rows * columns)
        y, x = place // columns * size + y - top, place % columns * size + x - left
        is_inside = tirx.all(y >= 0, y < height, x >= 0, x < width)
        return tirx.if_then_else(is_inside, data[image, y, x, channel], tirx.const(0.0, "float32"))

    shape, tile = _shape(batch * rows * columns, span, span, channels), {TILE: [span * span, 1]}
    window = te.compute(shape, padded, name="winograd_window", attrs=tile)
    by_row = te.compute(
        shape,
        lambda tile, y, x, channel: _combination(matrix, y, lambda row: window[tile, row, x, channel]),
        name="winograd_rows",
        attrs=tile,
    )
    return te.compute(
        _shape(span * span, batch * rows * columns, channels),
        lambda place, tile, channel: _combination(
            matrix, place % span, lambda column: by_row[tile, place // span, column, channel]
        ),
        name="winograd_data",
    )


def _transform_products(products: Any, size: int, shape: Sequence[int]) -> Any:
    """Return products ``[places, tiles, channels]`` as the result of the convolution."""
    matrix, span = PRODUCTS[size], size + KERNEL - 1
    rows, columns = (_tiles(int(extent), size) for extent in shape[1:3])
    tiles, channels = (int(extent) for extent in products.shape[1:])
    by_row = te.compute(
        _shape(tiles, size, span, channels),
        lambda tile, y, x, channel: _combination(matrix, y, lambda row: products[row * span + x, tile, channel]),
        name="winograd_rows",
        attrs={TILE: [1, size, size]},
    )

    def output(image: Any, y: Any, x: Any, channel: Any) -> Any:
        tile = (image * rows + y // size) * columns + x // size
        return _combination(matrix, x % size, lambda column: by_row[tile, y % size, column, channel])

    return te.compute(shape, output, name="winograd_products")


def _shape(*extents: int) -> list[Any]:
    """Return a shape as Relax writes it, in 64 bits; buffers that are joined must agree in that too."""
    return [tirx.IntImm("int64", extent) for extent in extents]


def _tiles(extent: int, size: int) -> int:
    return -(-extent // size)


def _combination(matrix: Sequence[Sequence[float]], index: Any, term: Callable[[int], Any]) -> Any:
    """Return the sum of terms with the coefficients of one row of a matrix; ``index`` is a constant once unrolled."""
    *others, value = [_weighted_sum(row, term) for row in matrix]
    for place, other in reversed(list(enumerate(others))):
        value = tirx.Select(index == place, other, value)
    return value


def _weighted_sum(coefficients: Sequence[float], term: Callable[[int], Any]) -> Any:
    terms = [
        term(place) if coefficient == 1 else term(place) * tirx.const(coefficient, "float32")
        for place, coefficient in enumerate(coefficients)
        if coefficient
    ]
    return sum(terms[1:], start=terms[0])
