"""Random orders of passes, built and run, one JSON line per network.

A script for an interpreter with TVM's Relax: ``test_orders.py`` runs it with a file of passes and phases, and reads the
lines.
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
    request = json.loads(Path(sys.argv[1]).read_text())
    bridge = RelaxBridge("llvm")
    for path in request["networks"]:
        print(json.dumps({"case": Path(path).stem, **try_orders(bridge, Path(path), request["passes"])}), flush=True)


def try_orders(bridge: RelaxBridge, path: Path, passes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the orders that TVM refused, and those whose outputs differ from the plain network's."""
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
    names = [entry["name"] for entry in passes]
    for number in range(ORDERS):
        order, state = [], module
        places = list(random.integers(0, len(passes), LENGTH))
        if number % 2:  # without it few orders would leave the phase of operators, the more passes there are
            places.insert(LENGTH // 4, names.index("LegalizeOps"))
        if number % 4 == 3:  # by chance hardly any order reaches planned memory
            places.append(names.index("StaticPlanBlockMemory"))
        for place in places:
            entry = passes[place]
            if entry["phases"] and bridge.phase(state) not in entry["phases"]:
                continue
            order.append(entry["name"])
            try:
                state = bridge.apply(state, PassSpec.of(entry["name"]), factory=entry["factory"])
            except CompileError as error:
                refused.append([order, str(error)])
                break
        else:
            phases.add(bridge.phase(state))
            try:
                actual = outputs(bridge, state, values)
            except CompileError as error:
                refused.append([order, str(error)])
                continue
            if not all(np.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in zip(expected, actual, strict=True)):
                wrong.append(order)
    return {"refused": refused, "wrong": wrong, "phases": sorted(phases)}


def outputs(bridge: RelaxBridge, module: Any, values: dict[str, Any]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        built = bridge.build(module, BuildOptions(), Path(folder) / "built")
        return list(bridge.open(built, "cpu").run(values))


if __name__ == "__main__":
    main()
