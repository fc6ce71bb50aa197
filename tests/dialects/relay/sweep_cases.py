"""Runs the sweep of ONNX operators for an interpreter with TVM's Relay; ``test_onnx_converters.py`` reads the lines."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import onnx
import tvm
from onnx_sweep import sweep
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.importers.onnx_graph import read

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu"


def run(path: Path, inputs: Mapping[str, Any]) -> Sequence[Any]:
    return evaluate(*read(ModelSource(path=path, format="onnx", inputs={})), inputs)


def plain(path: Path, inputs: Mapping[str, Any]) -> Sequence[Any]:
    return evaluate(*relay.frontend.from_onnx(onnx.load(str(path)), freeze_params=True), inputs)


def evaluate(module: Any, params: Any, inputs: Mapping[str, Any]) -> Sequence[Any]:
    with tvm.transform.PassContext(opt_level=0):
        result = relay.create_executor("graph", module, tvm.cpu(), TARGET, params).evaluate()(
            **{name: tvm.nd.array(data) for name, data in inputs.items()}
        )
    return [each.numpy() for each in ([result] if hasattr(result, "numpy") else result)]


if __name__ == "__main__":
    sweep(run, plain)
