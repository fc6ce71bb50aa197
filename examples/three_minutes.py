"""Compile a network, search for faster passes in what is left of three minutes, and rebuild the result by its script.

    python examples/three_minutes.py [NETWORK] [--toolchain relax] [--seconds 180]

The last three lines say what came of it. Their numbers are those of compilation.json and result.json in `runs`.
"""

import argparse
import shlex
import subprocess
from pathlib import Path
from time import monotonic

import passsearch
from passsearch.errors import TimeTooShort
from passsearch.toolchain import get_toolchain

parser = argparse.ArgumentParser()
parser.add_argument("network", nargs="?", default="zoo:mobilenet_v2")
parser.add_argument("--toolchain", default="relax")
parser.add_argument("--seconds", type=float, default=180)
chosen = parser.parse_args()
name, begin_s = f"runs/demo-{chosen.toolchain}", monotonic()

# The sequence that the catalog recommends, beside the engines that are installed, of which ONNX Runtime always is.
folder = Path(f"{name}-compiled")
compiled = passsearch.compile(chosen.network, toolchain=chosen.toolchain, to=folder, progress=True)
print(compiled, end="\n\n")

# A search for something faster. 25 s are left for the replay, and for a search that exceeds its limit.
left_s = max(90, chosen.seconds - 25 - (monotonic() - begin_s))
try:
    result = passsearch.tune(
        chosen.network, toolchain=chosen.toolchain, timeout=left_s, rivals=[], out=name, progress=True
    )
    print(result, end="\n\n")
    added = result.summary
    if result.verdict["confirmed"]:
        folder = result.export(f"{name}-deploy")
except TimeTooShort as error:  # a slow or busy machine
    added = str(error)

# The script of the deployment compiles the network again, and runs all of its checks.
command = [str(get_toolchain(chosen.toolchain).python), str(folder / "build_model.py")]
subprocess.run(command, check=True)
print("", compiled.summary, added, sep="\n")
print(f"The deployment {folder} rebuilds it with TVM and numpy only: {shlex.join(command)}")
