"""Imports ONNX files, builds them without passes and runs them, each in a fork, for an interpreter with one TVM.

``runner.py`` starts it. Standard input has one request in JSON per line, standard output one answer per line.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from passsearch.core import BuildOptions, TensorType
from passsearch.dialects import dialect
from passsearch.dialects.contract import CompileError, ModelSource
from passsearch.errors import UserError

SECONDS = 120
"""Longest time of one file; a fork that takes longer ends by a signal."""


def main(name: str, target: str) -> None:
    """Serve requests until standard input ends."""
    # The compiler prints to standard output as well.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(answer: Mapping[str, str]) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    module, _, kind = dialect(name).bridge.partition(":")
    bridge = getattr(import_module(module), kind)(target)
    import_module(f"passsearch.dialects.{name}.importers.onnx_graph")
    send({})
    is_warm = False
    for line in sys.stdin:
        request = json.loads(line)
        if not is_warm:
            # What a first import sets up, each fork would set up again: 0.3 s of processor time on Relay.
            _answer(bridge, {**request, "cases": []})
            is_warm = True
        child = os.fork()
        if child == 0:
            send(_answer(bridge, request))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            send({"state": "crashed", "reason": f"status {status}"})


def _answer(bridge: Any, request: Mapping[str, Any]) -> dict[str, str]:
    """Return ``ran``, or how far a file gets, with the reason; the outputs are written beside it."""
    signal.alarm(SECONDS if request["cases"] else 0)
    types = {name: TensorType(tuple(shape), dtype) for name, (dtype, shape) in request["inputs"].items()}
    state = "refused"
    try:
        module = bridge.load(ModelSource(path=Path(request["path"]), format="onnx", inputs=types))
        if not request["cases"]:
            return {"state": "imported"}
        state = "unbuilt"
        with TemporaryDirectory() as folder:
            executable = bridge.open(bridge.build(module, BuildOptions(), Path(folder) / "built"), "cpu")
            state = "crashed"
            _run(executable, request)
    except (UserError, CompileError) as error:
        return {"state": state, "reason": str(error)}
    except Exception as error:  # noqa: BLE001
        return {"state": "crashed", "reason": f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"}
    return {"state": "ran"}


def _run(executable: Any, request: Mapping[str, Any]) -> None:
    """Run the network on each case of a file of arrays, whose names are ``case|number of the input``."""
    with np.load(request["data"]) as data:
        arrays = dict(data)
    results = {}
    for case in request["cases"]:
        inputs = {name: arrays[f"{case}|{number}"] for number, name in enumerate(request["inputs"])}
        results |= {f"{case}|{number}": array for number, array in enumerate(executable.run(inputs))}
    np.savez(request["results"], **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
