"""Runs elementwise functions over all of float32 by sequences of passes; prints one JSON line for each of both.

A script for an interpreter with TVM's Relay: ``test_functions.py`` runs it with a file of sequences and a target, and
reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from passsearch.core import BuildOptions, PassSpec
from passsearch.dialects.relay.bridge import RelayBridge

SAMPLES = 2**16
FUNCTIONS = {
    **{
        name: getattr(relay, name)
        for name in ("abs", "ceil", "cosh", "erf", "exp", "floor", "log", "negative", "rsqrt")
    },
    **{name: getattr(relay, name) for name in ("sigmoid", "sign", "sinh", "sqrt", "tanh", "trunc")},
    "clip": lambda x: relay.clip(x, -3.0, 6.0),
    "maximum": lambda x: relay.maximum(x, relay.negative(x)),
    "power 2": lambda x: relay.power(x, relay.const(2.0)),
    "power 3": lambda x: relay.power(x, relay.const(3.0)),
    "relu": relay.nn.relu,
    "silu": lambda x: x * relay.sigmoid(x),
    "twice divided": lambda x: (x / relay.const(3.0)) / relay.const(1e30),
    "times one plus zero": lambda x: x * relay.const(1.0) + relay.const(0.0),
}
"""Operators, and expressions that a simplification could make another number of.

A product with 0 is left out: kernels of TVM's FuseOps make 0 of it for infinities and NaN too.
"""


def arguments() -> Any:
    """Return patterns of bits from all of float32, and the numbers of networks."""
    bits = np.linspace(0, 2**32 - 1, SAMPLES, dtype=np.uint64).astype(np.uint32).view(np.float32)
    sizes = [0.0, np.inf, np.nan, 1e-45, 1.17549435e-38, 3.4028235e38]
    special = np.float32([*sizes, *(-size for size in sizes)])
    return np.concatenate([bits, special, np.random.default_rng(0).uniform(-110, 110, SAMPLES).astype("float32")])


def run(bridge: RelayBridge, values: Any, steps: list[dict[str, Any]]) -> list[Any]:
    """Return the results of all functions, which are the outputs of one network."""
    data = relay.var("x", shape=values.shape, dtype="float32")
    outputs = relay.Tuple([function(data) for function in FUNCTIONS.values()])
    module = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], outputs)))
    for step in steps:
        if not step["phases"] or bridge.phase(module) in step["phases"]:
            module = bridge.apply(module, PassSpec.of(step["name"], **step["arguments"]), factory=step["factory"])
    with tempfile.TemporaryDirectory() as folder:
        artifact = bridge.build(module, BuildOptions(opt_level=0), Path(folder) / "built")
        return [np.asarray(each) for each in bridge.open(artifact, "cpu").run({"x": values})]


def main() -> None:
    sequences = json.loads(Path(sys.argv[1]).read_text())
    bridge, values = RelayBridge(sys.argv[2]), arguments()
    plain = run(bridge, values, [])
    for sequence, steps in list(sequences.items())[:: int(sys.argv[3])]:
        for name, expected, actual in zip(FUNCTIONS, plain, run(bridge, values, steps), strict=True):
            is_same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
            finite = np.isfinite(expected) & np.isfinite(actual)
            unit = np.spacing(np.maximum(np.abs(np.where(finite, expected, 1)), np.finfo("float32").tiny))
            is_same |= finite & (np.abs(np.where(finite, actual - expected, 0)) <= 2 * unit)
            wrong = [
                [repr(each[place]) for each in (values, actual, expected)] for place in np.flatnonzero(~is_same)[:3]
            ]
            print(json.dumps({"case": sequence, "function": name, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main()
