"""Tests of Keras models as frozen graphs; each program runs in a process of its own, as no two frameworks share one."""

import pytest

SETUP = """
import tensorflow as tf

def make(seed=0):
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(seed)
    image, extra = tf.keras.Input((8, 8, 3), name="image"), tf.keras.Input((5,), name="extra")
    x = tf.keras.layers.Dropout(0.5)(tf.keras.layers.BatchNormalization()(tf.keras.layers.Conv2D(4, 3)(image)))
    x = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(x), extra])
    logits = tf.keras.layers.Dense(3)(x)
    return tf.keras.Model([image, extra], [logits, tf.keras.layers.Softmax()(logits)], name="two_heads")

class Declares(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3)

    def call(self, x):
        return {"out": self.dense(x)}

def read(file):
    graph = tf.compat.v1.GraphDef()
    graph.ParseFromString(file.path.read_bytes())
    return graph

def shapes(file):
    nodes = (node for node in read(file).node if node.op == "Placeholder")
    return {node.name: [each.size for each in node.attr["shape"].shape.dim] for node in nodes}
"""

COMPUTES = """
model = make()
file = resolve(model, batch=2, folder=folder)
assert (file.format, file.name, file.path.suffix) == ("tensorflow", "two_heads", ".pb"), file
assert shapes(file) == {"image": [2, 8, 8, 3], "extra": [2, 5]}, shapes(file)
graph = read(file)
assert not any(node.op in ("VarHandleOp", "PartitionedCall") for node in graph.node)
consumed = {name.split(":")[0].lstrip("^") for node in graph.node for name in node.input}
outputs = [node.name + ":0" for node in graph.node if node.name not in consumed]
feeds = {"image:0": np.random.rand(2, 8, 8, 3).astype("float32"), "extra:0": np.random.rand(2, 5).astype("float32")}
with tf.Graph().as_default() as loaded, tf.compat.v1.Session() as session:
    tf.import_graph_def(graph, name="")
    got = session.run(outputs, feeds)
for value, expected in zip(got, model(list(feeds.values())), strict=True):
    np.testing.assert_allclose(value, expected.numpy(), atol=1e-5)
"""

NAMED_BY_CONTENT = """
first = resolve(make(), batch=2, folder=folder)
assert resolve(make(), batch=2, folder=folder) == first
assert resolve(make(seed=1), batch=2, folder=folder).sha256 != first.sha256
assert resolve(make(), batch=3, folder=folder).sha256 != first.sha256
"""

INPUTS = """
image = TensorType((3, 8, 8, 3), "float32")
assert shapes(resolve(make(), inputs={"image": image}, batch=3, folder=folder))["extra"] == [3, 5]
assert "has open dimensions; give its sizes" in refused(make())
assert "Unknown input `imag`; did you mean `image`" in refused(make(), inputs={"imag": image})
assert "does not declare its inputs; give each in order" in refused(Declares())
assert shapes(resolve(Declares(), inputs={"x": TensorType((2, 4), "float32")}, folder=folder)) == {"x": [2, 4]}
assert "Example inputs go with" in refused(make(), example_inputs=(1,))
broken = Declares()
broken.dense = None
assert "Cannot freeze `__main__.Declares`" in refused(broken, inputs={"x": TensorType((2, 4), "float32")})
"""

FILES = """
model = make()
for name in ("net.keras", "net.h5"):
    model.save(folder / name)
    assert resolve(folder / name, batch=2, folder=folder).sha256 == resolve(model, batch=2, folder=folder).sha256
    assert resolve(folder / name, batch=2, folder=folder).name == "net"
model.save_weights(folder / "weights.h5")
(folder / "broken.keras").write_text("no archive")
for name in ("weights.h5", "broken.keras"):
    assert "as a Keras model (" in refused(folder / name, batch=2)
"""


@pytest.mark.parametrize("program", [COMPUTES, NAMED_BY_CONTENT, INPUTS, FILES])
def test_keras(run_with, program):
    run_with("tensorflow", SETUP + program)
