"""Runs the sweep of ONNX operators for an interpreter with TVM's Relax; ``test_onnx_converters.py`` reads the lines."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
from converter_cases import run
from onnx_sweep import sweep
from tvm.relax.frontend.onnx import from_onnx

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.onnx_graph import read

if __name__ == "__main__":
    sweep(
        lambda path, inputs: run(read(ModelSource(path=path, format="onnx", inputs={})), inputs["x"]),
        lambda path, inputs: run(from_onnx(onnx.load(str(path)), sanitize_input_names=False), inputs["x"]),
    )
