"""Random orders of passes, built and run, one JSON line per network.

A script for an interpreter with TVM's Relax: ``test_orders.py`` runs it, told the passes and their phases, and reads
the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import BuildOptions, PassSpec
from passsearch.dialects.contract import CompileError, ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge

LENGTH, ORDERS = 8, 25


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    bridge = RelaxBridge("llvm")
    for path in asked["networks"]:
        print(json.dumps({"case": Path(path).stem, **tried(bridge, Path(path), asked["passes"])}), flush=True)


def tried(bridge: RelaxBridge, path: Path, passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Orders that could not be applied or built, and those whose outputs are not those of the plain network."""
    module = bridge.load(ModelSource(path=path, format="onnx", inputs={}))
    random = np.random.default_rng(0)
    values = {
        name: (
            random.standard_normal(kind.shape) if "float" in kind.dtype else random.integers(0, 2, kind.shape)
        ).astype(kind.dtype)
        for name, kind in bridge.inputs(module).items()
    }
    expected = outputs(bridge, module, values)
    refused, wrong, phases = [], [], set()
    for _ in range(ORDERS):
        order, state = [], module
        for place in random.integers(0, len(passes), LENGTH):
            each = passes[place]
            if each["phases"] and bridge.phase(state) not in each["phases"]:
                continue
            order.append(each["name"])
            try:
                state = bridge.apply(state, PassSpec.of(each["name"]), factory=each["factory"])
            except CompileError as error:
                refused.append([order, str(error)])
                break
        else:
            phases.add(bridge.phase(state))
            try:
                found = outputs(bridge, state, values)
            except CompileError as error:
                refused.append([order, str(error)])
                continue
            if not all(np.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in zip(expected, found, strict=True)):
                wrong.append(order)
    return {"refused": refused, "wrong": wrong, "phases": sorted(phases)}


def outputs(bridge: RelaxBridge, module: Any, values: dict[str, Any]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        built = bridge.build(module, BuildOptions(), Path(folder) / "built")
        return list(bridge.open(built, "cpu").run(values))


if __name__ == "__main__":
    main()
