"""A frozen graph computes what the model infers."""

import numpy as np
import tensorflow as tf
from keras_network import input_shapes, make, read_graph
from prelude import FOLDER, resolve

model = make()
file = resolve(model, batch=2, folder=FOLDER)
assert (file.format, file.name, file.path.suffix) == ("tensorflow", "two_heads", ".pb"), file
assert input_shapes(file) == {"image": [2, 8, 8, 3], "extra": [2, 5]}, input_shapes(file)
graph = read_graph(file)
assert not any(node.op in ("VarHandleOp", "PartitionedCall") for node in graph.node)
consumed = {name.split(":")[0].lstrip("^") for node in graph.node for name in node.input}
outputs = [node.name + ":0" for node in graph.node if node.name not in consumed]
feeds = {"image:0": np.random.rand(2, 8, 8, 3).astype("float32"), "extra:0": np.random.rand(2, 5).astype("float32")}
with tf.Graph().as_default() as loaded, tf.compat.v1.Session() as session:
    tf.import_graph_def(graph, name="")
    values = session.run(outputs, feeds)
for value, expected in zip(values, model(list(feeds.values())), strict=True):
    np.testing.assert_allclose(value, expected.numpy(), atol=1e-5)
