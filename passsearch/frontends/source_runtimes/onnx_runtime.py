"""ONNX files as ONNX Runtime runs them, and as ONNX's reference evaluator does where ONNX Runtime is not installed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from passsearch.core import physical_cores
from passsearch.dialects.contract import Array, ModelSource, SourceNetwork
from passsearch.dialects.onnx_rounding import move_constants, quantizes
from passsearch.dialects.onnx_widening import has_halves, widen
from passsearch.errors import UserError

LARGEST_BYTES = 2 * 10**9
"""Size of weights from which a model is no message of protobuf, whose limit is 2 GiB."""

WRONG_IN_EVALUATOR = frozenset(
    {"BatchNormalization", "ConvTranspose", "GRU", "LSTM", "MaxUnpool", "Resize", "RNN", "RoiAlign", "Upsample"}
)
"""Operators that ONNX's reference evaluator computes otherwise than defined: it does not read an LSTM's clip, and
normalizes by the statistics of the batch before operator set 14."""


class OnnxSource:
    """The part of a bridge that opens a network's source; the worker that has it is asked for nothing else."""

    def __init__(self, _: str) -> None:
        """Do nothing; a source has no target."""

    def open_source(self, source: ModelSource) -> SourceNetwork:
        """Open an ONNX file.

        Raises:
            UserError: No runtime here runs the network.
        """
        try:
            import onnxruntime
        except ImportError:
            return OnnxEvaluator(source)
        return OnnxRuntime(onnxruntime, source)


class _OnnxNetwork(SourceNetwork):
    """What both runtimes have in common: inputs by name or, where an importer renamed them, by position."""

    def __init__(self, names: Sequence[str]) -> None:
        self._input_names = names

    def _named(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if len(inputs) != len(self._input_names):
            raise UserError(f"the file has {len(self._input_names)} inputs, the import {len(inputs)}")
        if set(inputs) == set(self._input_names):
            return dict(inputs)
        return dict(zip(self._input_names, inputs.values(), strict=True))


class OnnxRuntime(_OnnxNetwork):
    """ONNX Runtime on the CPU, which runs every operator as it stands in the file."""

    def __init__(self, onnxruntime: Any, source: ModelSource, *, moved: bytes | None = None) -> None:
        """Open the file, or the model of it with moved constants."""
        options = onnxruntime.SessionOptions()
        # Its optimisations round differently, and some of them have been wrong.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.inter_op_num_threads = physical_cores(), 1
        options.log_severity_level = 4
        # Packed weights are a copy; the file's own are mapped.
        options.add_session_config_entry("session.disable_prepacking", "1")
        providers = ["CPUExecutionProvider"]
        with TemporaryDirectory() as folder:
            # Large weights are read, or mapped, before the folder goes.
            model = _exact(source.path, Path(folder)) if moved is None else moved
            self._session = onnxruntime.InferenceSession(model, options, providers=providers)
        self._onnxruntime, self._source = onnxruntime, source
        super().__init__([each.name for each in self._session.get_inputs()])
        self.runtime = f"ONNX Runtime {onnxruntime.__version__}"
        self.output_names = [each.name for each in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference."""
        arrays: Sequence[Array] = self._session.run(None, self._named(inputs))
        return arrays

    def moved(self, seed: int) -> OnnxRuntime | None:
        """Open the model with its float constants moved by one rounding, if it quantises and fits into a message."""
        import onnx

        path = str(self._source.path)
        outline = onnx.load(path, load_external_data=False)
        if not quantizes(outline) or has_halves(outline) or _bytes(outline) >= LARGEST_BYTES:
            return None
        model = onnx.load(path)
        move_constants(model, seed=seed)
        return OnnxRuntime(self._onnxruntime, self._source, moved=model.SerializeToString())


class OnnxEvaluator(_OnnxNetwork):
    """ONNX's reference evaluator, in numpy."""

    def __init__(self, source: ModelSource) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        model = onnx.load(str(source.path))
        if has_halves(model):
            widen(model, source.path.parent)
        if wrong := sorted(WRONG_IN_EVALUATOR & {node.op_type for node in model.graph.node}):
            raise UserError(
                f"ONNX Runtime is not installed, and ONNX's reference evaluator is not exact for {', '.join(wrong)}; "
                "run: pip install onnxruntime"
            )
        self._evaluator: Any = ReferenceEvaluator(model)
        super().__init__(list(self._evaluator.input_names))
        self.runtime = f"ONNX's reference evaluator {onnx.__version__}"
        self.output_names = list(self._evaluator.output_names)

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Run one inference."""
        arrays: Sequence[Array] = self._evaluator.run(None, self._named(inputs))
        return arrays


def _exact(path: Path, folder: Path) -> str | bytes:
    """Return a file, or the model in it whose 16-bit floats are computed in float32.

    In 16 bits ONNX Runtime rounds between operators, and has few of them in bfloat16. A model of more than 2 GB, the
    most that a message may have, is written to a folder.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=False)
    if not has_halves(model):
        return str(path)
    model = onnx.load(str(path))
    widen(model, path.parent)
    if _bytes(model) < LARGEST_BYTES:
        return bytes(model.SerializeToString())
    onnx.save(model, str(folder / path.name), save_as_external_data=True)
    return str(folder / path.name)


def _bytes(model: Any) -> int:
    from onnx import helper

    sizes = (helper.tensor_dtype_to_np_dtype(each.data_type).itemsize for each in model.graph.initializer)
    return sum(size * math.prod(each.dims) for size, each in zip(sizes, model.graph.initializer, strict=True))
