"""What a built network computes against what its framework computed: ``python agree.py FOLDER CASES.npz``.

Run in the toolchain's interpreter (TVM and numpy only). Answers the largest deviation of each case as a share of the
largest output, as JSON.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tvm
from tvm.contrib import graph_executor

folder, cases = Path(sys.argv[1]), np.load(sys.argv[2])
executor = graph_executor.create(
    (folder / "graph.json").read_text(), tvm.runtime.load_module(str(folder / "kernels.so")), tvm.cpu()
)
executor.load_params((folder / "parameters.bin").read_bytes())
deviations = []
for case in sorted({key.split("/")[1] for key in cases.files}):
    for key in (key for key in cases.files if key.startswith(f"in/{case}/")):
        executor.set_input(key.split("/", 2)[2], cases[key])
    executor.run()
    wanted = [cases[key] for key in cases.files if key.startswith(f"out/{case}/")]
    got = [executor.get_output(index).numpy() for index in range(len(wanted))]
    deviations.append(max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, wanted, strict=True)))
json.dump(deviations, sys.stdout)
