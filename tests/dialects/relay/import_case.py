"""Imports the bridge and prints one JSON line: what was imported with it.

A script for an interpreter with TVM's Relay: ``test_relay_import.py`` runs it and reads the line.
"""

import json
import sys

import passsearch.dialects.relay.bridge  # noqa: F401

LATE = "scipy.stats"

if __name__ == "__main__":
    with_bridge = LATE in sys.modules
    from tvm.relay.quantize.quantization.algorithm import stats

    print(json.dumps({"case": "import", "with_bridge": with_bridge, "entropy": float(stats.entropy([1, 1], base=2))}))
