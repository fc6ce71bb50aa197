"""Small networks of frameworks, for an interpreter that has the framework and TVM.

``make FORMAT FOLDER`` writes one and what its framework computes; ``check FOLDER IR`` prints how far the IR deviates.
"""

import json
import sys
from pathlib import Path

import numpy as np

DATA = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype("float32")


def saved_model(folder: Path) -> tuple[str, np.ndarray]:
    tf, network = keras_network()
    tf.saved_model.save(network, str(folder / "network"))
    return "network", network(DATA).numpy()


def frozen_graph(folder: Path) -> tuple[str, np.ndarray]:
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tf, network = keras_network()
    function = tf.function(network).get_concrete_function(tf.TensorSpec((None, 8, 8, 3), "float32", name="image"))
    graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
    (folder / "network.pb").write_bytes(graph.SerializeToString())
    return "network.pb", network(DATA).numpy()


def keras_network():
    import tensorflow as tf

    layers = tf.keras.layers
    image = layers.Input((8, 8, 3), name="image")
    found = layers.Conv2D(4, 3, activation="relu")(layers.ZeroPadding2D()(image))
    found = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2)(found)
    found = layers.DepthwiseConv2D((2, 3), strides=2, padding="same")(found)
    found = layers.DepthwiseConv2D(2, padding="valid")(found)
    return tf, tf.keras.Model(
        image, layers.Dense(5)(layers.GlobalAveragePooling2D()(layers.BatchNormalization()(found)))
    )


def mxnet_symbol(folder: Path) -> tuple[str, np.ndarray]:
    import mxnet as mx
    from mxnet.gluon import nn

    network = nn.HybridSequential()
    network.add(nn.Conv2D(4, 3, activation="relu"), nn.BatchNorm(), nn.GlobalAvgPool2D(), nn.Dense(5))
    network.initialize(mx.init.Xavier())
    network.hybridize()
    outputs = network(mx.nd.array(DATA)).asnumpy()
    network.export(str(folder / "network"), epoch=3)
    return "network-symbol.json", outputs


def torchscript(folder: Path) -> tuple[str, np.ndarray]:
    import torch
    from torch import nn

    network = nn.Sequential(nn.Conv2d(8, 4, 3), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.LazyLinear(5)).eval()
    with torch.no_grad():
        outputs = network(torch.from_numpy(DATA)).numpy()
        torch.jit.save(torch.jit.trace(network, torch.from_numpy(DATA)), str(folder / "network.pt"))
    return "network.pt", outputs


def make(name: str, folder: str) -> None:
    path, outputs = globals()[name](Path(folder))
    np.save(Path(folder) / "outputs.npy", outputs)
    print(json.dumps({"path": path}))


def check(folder: str, network: str) -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    module = tvm.ir.load_json(Path(network).read_text())
    beside = Path(network).with_suffix(".params")
    params = tvm.runtime.load_param_dict(beside.read_bytes()) if beside.exists() else {}
    with tvm.transform.PassContext(opt_level=0):
        built = relay.build(module, "llvm -mtriple=x86_64-unknown-linux-gnu", params=params)
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    [name] = {each.name_hint for each in module["main"].params} - set(params)
    executor.run(**{name: DATA})
    wanted = np.load(Path(folder) / "outputs.npy")
    deviation = float(np.abs(executor.get_output(0).numpy() - wanted).max() / np.abs(wanted).max())
    print(json.dumps({"input": name, "deviation": deviation}))


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])
