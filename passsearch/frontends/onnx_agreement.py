"""A comparison of an ONNX file that PyTorch's exporter wrote with the module that it was made of."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from passsearch.core import NO_TELEMETRY
from passsearch.dialects.contract import Array, ModelSource
from passsearch.errors import UserError
from passsearch.frontends.request import first_line

MOST_BYTES = 1 << 30
"""Size of the largest file that is compared: a larger one takes seconds to load."""

TOLERANCE, HALF_TOLERANCE = 1e-3, 2**-4
"""Difference that rounding may make, as a share of the largest value, in float32 and where PyTorch rounds each value to
16 bits; the faults of exporters are far larger."""

_log = logging.getLogger(__name__)


def disagrees(
    path: Path, inputs: Mapping[str, Array], expected: Sequence[Array], *, tolerance: float = TOLERANCE
) -> bool:
    """Return whether ONNX Runtime computes something else by a file than PyTorch did by the module.

    Args:
        path: The file.
        inputs: The example inputs.
        expected: The module's results on them.
        tolerance: Difference that rounding may make.

    Returns:
        True for another number, shape or dtype of outputs, or other floating-point values. False also where ONNX
        Runtime is not installed, or does not run the file.
    """
    for name, value in NO_TELEMETRY.items():
        os.environ.setdefault(name, value)  # ONNX Runtime reads it when it is imported
    try:
        import onnxruntime
    except ImportError:
        return False
    if path.stat().st_size > MOST_BYTES:
        return False
    from passsearch.frontends.source_runtimes.onnx_runtime import OnnxRuntime

    # Its classes of errors have no common base.
    state = vars(onnxruntime.capi.onnxruntime_pybind11_state).values()
    own = [each for each in state if isinstance(each, type) and issubclass(each, Exception)]
    errors: tuple[type[Exception], ...] = (*own, UserError, RuntimeError, ValueError)
    try:
        computed = OnnxRuntime(onnxruntime, ModelSource(path, "onnx", {})).run(inputs)
    except errors as error:
        _log.debug("ONNX Runtime does not run `%s`: %s", path, first_line(error))
        return False
    return len(computed) != len(expected) or any(
        _differs(*pair, tolerance) for pair in zip(computed, expected, strict=True)
    )


def _differs(computed: Array, expected: Array, tolerance: float) -> bool:
    if computed.shape != expected.shape or computed.dtype != expected.dtype:
        return True
    # Equal values are sorted in any order, so their places say nothing.
    if expected.dtype.kind != "f" or not expected.size:
        return False
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    return not np.allclose(computed, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
