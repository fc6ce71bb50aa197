"""Keras networks for the programs of this folder."""

import tensorflow as tf


def make(seed=0):
    """A network with two inputs and two outputs."""
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(seed)
    image, extra = tf.keras.Input((8, 8, 3), name="image"), tf.keras.Input((5,), name="extra")
    x = tf.keras.layers.Dropout(0.5)(tf.keras.layers.BatchNormalization()(tf.keras.layers.Conv2D(4, 3)(image)))
    x = tf.keras.layers.Concatenate()([tf.keras.layers.Flatten()(x), extra])
    logits = tf.keras.layers.Dense(3)(x)
    return tf.keras.Model([image, extra], [logits, tf.keras.layers.Softmax()(logits)], name="two_heads")


class Subclassed(tf.keras.Model):
    """A model that does not declare its inputs."""

    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(3)

    def call(self, x):
        return {"out": self.dense(x)}


def read_graph(file):
    """The frozen graph of a file."""
    graph = tf.compat.v1.GraphDef()
    graph.ParseFromString(file.path.read_bytes())
    return graph


def input_shapes(file):
    """Shapes of the graph's inputs by name."""
    nodes = (node for node in read_graph(file).node if node.op == "Placeholder")
    return {node.name: [dim.size for dim in node.attr["shape"].shape.dim] for node in nodes}
