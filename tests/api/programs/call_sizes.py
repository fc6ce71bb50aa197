"""Calls a network of several sizes, by its loader and as a function of passsearch, on inputs of a file."""

import json
import sys
from pathlib import Path

import numpy as np

folder, arrays = Path(sys.argv[1]), np.load(sys.argv[2])
sys.path.insert(0, str(folder))

import run_model  # noqa: E402

network = run_model.load(folder / "built")
outputs, refused = {}, {}
taken = []
run = network.run
network.run = lambda function, given: (taken.append(function), run(function, given))[1]
for length in sorted({name.split("_")[1] for name in arrays.files}, key=int):
    given = {name.split("_")[0]: arrays[name] for name in arrays.files if name.split("_")[1] == length}
    try:
        outputs[f"y_{length}"] = network(given)[0]
    except run_model.InputError as error:
        refused[length] = str(error)
np.savez(sys.argv[3], **outputs)
if len(sys.argv) > 4:
    sys.path.append(sys.argv[4])  # passsearch and what it needs
    import passsearch

    fast = passsearch.load(folder)
    for name, expected in outputs.items():
        length = name.split("_")[1]
        result = fast({each.split("_")[0]: arrays[each] for each in arrays.files if each.split("_")[1] == length})["y"]
        assert result.shape == expected.shape and np.abs(result - expected).max() < 1e-5, name
print(json.dumps({"taken": taken, "refused": refused}))
