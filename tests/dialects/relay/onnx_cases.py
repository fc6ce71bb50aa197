"""Imports ONNX files with and without the quicker type inference and folding; prints one case per file."""

import contextlib
import json
import sys
from pathlib import Path
from unittest import mock

import tvm

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer
from passsearch.dialects.relay.importers import onnx_graph


def load(path: str) -> tvm.IRModule:
    """Return the module of one file."""
    return importer.load(ModelSource(Path(path), "onnx", {}, None, None))


for file in sys.argv[1:]:
    quick = load(file)
    with mock.patch.object(onnx_graph, "local_inference", contextlib.nullcontext):
        plain = load(file)
    print(json.dumps({"case": Path(file).stem, "equal": tvm.ir.structural_equal(quick, plain)}))
