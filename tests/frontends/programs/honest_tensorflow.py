"""Write files of TensorFlow that only compute: layers with state, tables, assets, loops. Argument: their folder."""

import os
import sys
import tempfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

FOLDER = Path(sys.argv[1])
VOCABULARY = Path(tempfile.mkdtemp()) / "vocabulary.txt"
layers = tf.keras.layers


class Tables(tf.Module):
    """A module with tables, an asset, a variable, a generator of random numbers and a loop."""

    def __init__(self) -> None:
        super().__init__()
        whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        words = tf.lookup.TextFileInitializer(str(VOCABULARY), tf.string, whole, tf.int64, line)
        self.words = tf.lookup.StaticHashTable(words, -1)
        self.keys = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["x"], [1]), 0)
        self.mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
        self.mutable.insert(["q"], [7])
        self.weights, self.asset = tf.Variable(tf.ones((4, 4))), tf.saved_model.Asset(str(VOCABULARY))
        self.random = tf.random.Generator.from_seed(1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None, 4], tf.float32)])
    def __call__(self, words, x):
        for _ in tf.range(3):
            x = x @ self.weights
        return {"y": x, "words": self.words.lookup(words) + self.mutable.lookup(words)}


def models():
    """Return models by name."""
    image = tf.keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(4, 3, activation="relu", kernel_regularizer="l2")(image)
    x = layers.Dropout(0.5)(layers.DepthwiseConv2D(3)(layers.BatchNormalization()(x)))
    x = layers.GlobalAveragePooling2D()(tf.nn.relu6(x) * 2 + 1)
    images = tf.keras.Model(image, layers.Dense(3, activation="softmax")(x))
    images.compile("adam", "categorical_crossentropy")
    cells = [layers.Embedding(10, 4, input_length=5), layers.Bidirectional(layers.LSTM(4)), layers.Dense(2)]
    sequence = tf.keras.Sequential(cells)
    sequence.build((None, 5))
    tokens = tf.keras.Input((7, 8))
    attention = layers.LayerNormalization()(layers.MultiHeadAttention(2, 4)(tokens, tokens) + tokens)
    return {"images": images, "sequence": sequence, "attention": tf.keras.Model(tokens, attention)}


def first_version() -> None:
    """Write a SavedModel as TensorFlow 1 does, with variables of both kinds and a table, and a frozen graph."""
    one = tf.compat.v1
    with tf.Graph().as_default(), one.Session() as session:
        x, words = one.placeholder(tf.float32, [None, 4], name="x"), one.placeholder(tf.string, [None])
        weights = one.get_variable("w", [4, 2], use_resource=False), one.get_variable("b", [2], use_resource=True)
        y = tf.nn.softmax(tf.matmul(x, weights[0]) + weights[1], name="y")
        whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        initializer = tf.lookup.TextFileInitializer(str(VOCABULARY), tf.string, whole, tf.int64, line)
        numbers = tf.lookup.StaticHashTable(initializer, -1).lookup(words)
        session.run([one.global_variables_initializer(), one.tables_initializer()])
        signature = {"inputs": {"x": x, "words": words}, "outputs": {"y": y, "numbers": numbers}}
        start = one.tables_initializer()
        one.saved_model.simple_save(session, str(FOLDER / "first"), *signature.values(), legacy_init_op=start)
        graph = one.graph_util.convert_variables_to_constants(session, session.graph_def, ["y"])
        (FOLDER / "first.pb").write_bytes(graph.SerializeToString())


def main() -> None:
    """Write all files."""
    VOCABULARY.write_text("a\nb\nc\n")
    for name, model in models().items():
        model.save(FOLDER / f"{name}.keras")
        model.save(FOLDER / f"{name}.h5")
        tf.saved_model.save(model, str(FOLDER / f"{name}-saved"))
        model.export(str(FOLDER / f"{name}-export"))
        specs = [tf.TensorSpec([1, *each.shape[1:]], each.dtype) for each in model.inputs]
        function = tf.function(lambda *tensors, model=model: model(*tensors)).get_concrete_function(*specs)
        graph = convert_variables_to_constants_v2(function).graph.as_graph_def()
        (FOLDER / f"{name}.pb").write_bytes(graph.SerializeToString())
        (FOLDER / f"{name}.tflite").write_bytes(tf.lite.TFLiteConverter.from_concrete_functions([function]).convert())
    tables = Tables()
    tf.saved_model.save(tables, str(FOLDER / "tables"), signatures=tables.__call__)
    strings = tf.keras.Sequential([layers.StringLookup(vocabulary=["a", "b"])])
    strings(tf.constant([["a"]]))
    tf.saved_model.save(strings, str(FOLDER / "strings"))
    first_version()


if __name__ == "__main__":
    main()
