"""Applies sequences to a network whose IR is stored and read again before every pass, and to one that stays in memory.

A script for the interpreter of a toolchain: ``test_stored_states.py`` runs it with a file of the bridge, the network
and the sequences, and reads one JSON line per sequence.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.core import PassSpec
from passsearch.dialects.contract import CompileError, ModelSource


def main() -> None:
    request = json.loads(Path(sys.argv[1]).read_text())
    module, _, name = request["bridge"].partition(":")
    bridge = getattr(import_module(module), name)(request["target"])
    source = ModelSource(path=Path(request["network"]), format="onnx", inputs={})
    for sequence, steps in request["sequences"].items():
        print(json.dumps({"case": sequence, "differs": first_difference(bridge, source, steps)}), flush=True)


def first_difference(bridge: Any, source: ModelSource, steps: list[dict[str, Any]]) -> str | None:
    """Return the first pass whose result depends on whether its argument was stored; ``None`` without one."""
    kept = stored = bridge.load(source)
    for step in steps:
        skeleton, _ = bridge.constants.strip(stored)
        stored = apply(bridge, bridge.constants.fill(bridge.read(bridge.write(skeleton))), step)
        kept = apply(bridge, kept, step)
        if isinstance(kept, str) or isinstance(stored, str):
            return None if kept == stored else step["name"]
        if identity(bridge, kept) != identity(bridge, stored):
            return str(step["name"])
    return None


def apply(bridge: Any, module: Any, step: dict[str, Any]) -> Any:
    """Return the module after a pass, or what the compiler says against it."""
    if step["phases"] and bridge.phase(module) not in step["phases"]:
        return module
    try:
        return bridge.apply(module, PassSpec.of(step["name"], **step["arguments"]), factory=step["factory"])
    except CompileError as error:
        return str(error)


def identity(bridge: Any, module: Any) -> str:
    return str(bridge.identity(bridge.constants.strip(module)[0]))


if __name__ == "__main__":
    main()
