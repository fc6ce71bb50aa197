"""Closes a space by a plain loop, in an interpreter with TVM; ``benchmarks/close_space.py`` compares itself with it.

One process applies every pass as TVM has it. A state is a structural hash, and constants are hashed at every step.
Reads a request from standard input and prints one JSON line: hashes, edges, failures and seconds.
"""

import json
import sys
import time
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.core import PassSpec
from passsearch.dialects.contract import CompileError, ModelSource


def main() -> None:
    """Read the request, close the space and print the result."""
    request = json.loads(sys.stdin.read())
    home, _, name = request["bridge"].partition(":")
    bridge: Any = getattr(import_module(home), name)(request["target"])
    steps = [(PassSpec.of(row["name"], **row["arguments"]), row["factory"]) for row in request["passes"]]
    root = bridge.load(ModelSource(Path(request["path"]), request["format"], {}))
    start = time.perf_counter()
    modules = {bridge.structural_hash(root): root}
    queue, edges, failed = deque(modules), 0, 0
    while queue:
        module = modules[queue.popleft()]
        for step, factory in steps:
            edges += 1
            try:
                after = bridge.apply(module, step, factory=factory)
            except CompileError:
                failed += 1
                continue
            identity = bridge.structural_hash(after)
            if identity not in modules:
                modules[identity] = after
                queue.append(identity)
    seconds = time.perf_counter() - start
    print(json.dumps({"hashes": sorted(modules), "edges": edges, "failed": failed, "seconds": seconds}))


if __name__ == "__main__":
    main()
