"""Importing the front ends loads no framework and nothing else that is slow."""

import sys

import passsearch.frontends  # noqa: F401

SLOW = {"torch", "tensorflow", "mxnet", "transformers", "onnx", "tvm", "numpy", "yaml", "platformdirs"}
assert not SLOW & set(sys.modules), SLOW & set(sys.modules)
