"""Prints in which types ONNX Runtime and OpenVINO compute quantised files: ``python …/quantized_types.py FILE.onnx``.

It needs ``onnx``, ``onnxruntime`` and ``openvino`` in one environment. ONNX Runtime says it by the operators of the
network that it has optimised, OpenVINO by the kernels that it has run.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino

FLOATS, INTEGERS = ("Conv", "FusedConv", "Gemm", "MatMul", "FusedMatMul"), ("Integer", "QLinear", "QGemm", "QAttention")
KINDS = ("Convolution", "FullyConnected", "MatMul")
SETTINGS = {"PERF_COUNT": "YES", "INFERENCE_PRECISION_HINT": "f32"}
"""No 16 bits, as in the comparison."""


def of_onnxruntime(path: str) -> Counter[str]:
    """Return the numbers of convolutions and products in floats, and of operators on integers."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        options.log_severity_level = 3  # it warns that such a file depends on the machine
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        nodes = onnx.load(options.optimized_model_filepath).graph.node
    kinds = [node.op_type for node in nodes]
    return Counter(each for each in kinds if each in FLOATS or any(word in each for word in INTEGERS))


def of_openvino(path: str) -> Counter[str]:
    """Return the numbers of convolutions and products by the type in the name of their kernel."""
    compiled = openvino.Core().compile_model(path, "CPU", SETTINGS)
    request, random = compiled.create_infer_request(), np.random.default_rng(0)
    request.infer([random.random(list(each.shape)).astype(each.element_type.to_dtype()) for each in compiled.inputs])
    return Counter(
        f"{each.node_type} {each.exec_type.rpartition('_')[2]}"
        for each in request.profiling_info
        if each.node_type in KINDS
    )


if __name__ == "__main__":
    for file in sys.argv[1:]:
        for engine in (of_onnxruntime, of_openvino):
            counts = ", ".join(f"{name} {count}" for name, count in sorted(engine(file).items()))
            print(f"{Path(file).stem}, {engine.__name__.removeprefix('of_')}: {counts}")
