"""Imports the networks of ``onnx_schemas.py`` into TVM's Relay; ``test_onnx_schemas.py`` reads the lines."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_schemas import unread

import passsearch.dialects.relay.quick_import  # noqa: F401
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer
from passsearch.errors import UserError

if __name__ == "__main__":
    unread(Path(sys.argv[1]), lambda path: importer.load(ModelSource(path=path, format="onnx", inputs={})), UserError)
