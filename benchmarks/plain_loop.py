"""Close a space by a plain loop, for an interpreter with TVM: what ``benchmarks/close_space.py`` compares with.

One process, every pass applied as TVM has it, a state for every structural hash, constants hashed at every step. Prints
one JSON line: the hashes, edges, failures and seconds.
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
    """Read the request from standard input, close the space."""
    request = json.loads(sys.stdin.read())
    home, _, name = request["bridge"].partition(":")
    bridge: Any = getattr(import_module(home), name)(request["target"])
    steps = [(PassSpec.of(each["name"], **each["arguments"]), each["factory"]) for each in request["passes"]]
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
