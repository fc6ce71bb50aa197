"""A compiler module in memory is saved, and loads again."""

import numpy as np
import tvm
from prelude import FOLDER, refusal, resolve
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.importer import load

x, w = relay.var("x", shape=(1, 8)), relay.var("w", shape=(4, 8))
function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
module = tvm.IRModule.from_expr(function)
weights = {"w": np.full((4, 8), 0.5, "float32")}
on_device = {name: tvm.nd.array(value) for name, value in weights.items()}


def input_names(file):
    """The inputs of a saved module, as the dialect loads it."""
    assert (file.format, file.toolchain) == ("ir", "this"), file
    return [var.name_hint for var in load(ModelSource(file.path, file.format, file.inputs))["main"].params]


assert input_names(resolve(module, folder=FOLDER)) == ["x", "w"]
assert input_names(resolve(function, folder=FOLDER)) == ["x", "w"]
with_weights = resolve((module, weights), folder=FOLDER)
assert input_names(with_weights) == ["x"]
assert resolve((module, on_device), folder=FOLDER).sha256 == with_weights.sha256
from_path = resolve(str(with_weights.path), folder=FOLDER)
assert (from_path.sha256, from_path.toolchain) == (with_weights.sha256, None)
assert "got `NDArray`; give a tvm.IRModule" in refusal(on_device["w"])
assert "Parameters are arrays by name, got `int`" in refusal((module, 3))
assert "got `tuple`; give a tvm.IRModule" in refusal((module, weights, 3))
assert sorted(path.suffix for path in FOLDER.iterdir()) == [".json", ".json", ".params"]
