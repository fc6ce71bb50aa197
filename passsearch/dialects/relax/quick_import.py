"""Imports TVM without PyTorch; every process that serves the bridge imports this module first.

``tvm_ffi`` imports PyTorch wherever it is installed, to avoid a clash of symbols if PyTorch is imported later. That is
half of a worker's start, and no worker needs it: one that imports a network of PyTorch loads PyTorch before the bridge.
"""

import sys

if "torch" not in sys.modules:
    # Python's way to make an import fail: https://docs.python.org/3/reference/import.html#the-module-cache
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import tvm  # noqa: F401
    finally:
        del sys.modules["torch"]
