"""Runs the networks of ``onnx_values.py`` with TVM's Relay; ``test_relay_onnx_converters.py`` reads the lines."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_values import run_all

from passsearch.core import BuildOptions
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.bridge import RelayBridge

BRIDGE = RelayBridge("llvm -mtriple=x86_64-unknown-linux-gnu")


def run(path: Path, inputs: Mapping[str, Any]) -> Sequence[Any]:
    module = BRIDGE.load(ModelSource(path=path, format="onnx", inputs={}))
    with tempfile.TemporaryDirectory() as folder:
        # Level 1: Dropout has no kernel, and is removed by a pass of that level.
        artifact = BRIDGE.build(module, BuildOptions(opt_level=1), Path(folder) / "built")
        return BRIDGE.open(artifact, "cpu").run(inputs)


if __name__ == "__main__":
    run_all(run, every=int(sys.argv[1]))
