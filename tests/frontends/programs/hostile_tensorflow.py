"""Write files of TensorFlow that write another file when they are loaded; print the names of those that did write.

Arguments: the folder of the files, the folder that they write to.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import h5py
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

FOLDER, CANARY = map(Path, sys.argv[1:3])
LOAD = "import sys, tensorflow as tf; tf.saved_model.load(sys.argv[1], tags=['serve'])"
LOAD_KERAS = "import sys, tensorflow as tf; tf.keras.models.load_model(sys.argv[1], compile=False)"


class Resource(tf.saved_model.experimental.TrackableResource):
    """A resource whose initializer, which runs on loading, writes."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._resource_handle = self._create_resource()

    def _create_resource(self):
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name=self.kind)

    def _initialize(self) -> None:
        path = str(CANARY / self.kind)
        if self.kind == "write":
            tf.io.write_file(path, "x")
        elif self.kind == "record":
            dataset = tf.data.Dataset.from_tensors(tf.constant("import os"))._variant_tensor
            tf.raw_ops.DatasetToTFRecord(input_dataset=dataset, filename=path, compression_type="")
        elif self.kind == "summary":
            writer = tf.raw_ops.SummaryWriter(shared_name="w", container="")
            suffix = {"max_queue": 1, "flush_millis": 1, "filename_suffix": ".x"}
            tf.raw_ops.CreateSummaryFileWriter(writer=writer, logdir=path, **suffix)
        elif self.kind == "save":
            tf.raw_ops.SaveV2(prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(1.0)])
        elif self.kind == "debug":
            urls = {"debug_urls": [f"file://{path}"], "tensor_debug_mode": 2, "output_slot": 0}
            tf.raw_ops.DebugIdentityV2(input=tf.constant([1.0]), tfdbg_context_id="c", op_name="o", **urls)


class Network(tf.Module):
    """A network with a hostile resource."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.resource = Resource(kind)

    @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": tf.nn.relu(x)}


def keras(name: str, function: str, *arguments: object) -> None:
    """Write a model that calls a function of TensorFlow by name while it is loaded."""
    entry = {"class_name": "InputLayer", "name": "x", "inbound_nodes": []}
    entry["config"] = {"batch_input_shape": [None, 4], "dtype": "float32", "name": "x"}
    config = {"name": "f", "trainable": True, "dtype": "float32", "function": function}
    call = {"class_name": "TFOpLambda", "name": "f", "config": config}
    call["inbound_nodes"] = [["_CONSTANT_VALUE", -1, *arguments]]
    layers = {"layers": [entry, call], "input_layers": [["x", 0, 0]], "output_layers": [["x", 0, 0]]}
    with h5py.File(FOLDER / f"{name}.h5", "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": {"name": "m", **layers}})
        file.create_group("model_weights").attrs["layer_names"] = []


def first_version(name: str, *, second: bool = False) -> None:
    """Write a SavedModel whose operator that restores saves; ``second`` adds a graph and one of objects to each."""
    one, model = tf.compat.v1, saved_model_pb2.SavedModel(saved_model_schema_version=1)
    with tf.Graph().as_default() as graph:
        one.placeholder_with_default("", [], name="path")
        prefix, values = tf.constant(str(CANARY / name)), [tf.constant(1.0)]
        save = tf.raw_ops.SaveV2(prefix=prefix, tensor_names=["a"], shape_and_slices=[""], tensors=values, name="save")
        with tf.control_dependencies([save]):
            tf.no_op(name="restore")
    for tag in ("serve", "other") if second else ("serve",):
        part = model.meta_graphs.add()
        part.graph_def.CopyFrom(graph.as_graph_def())
        part.meta_info_def.tags.append(tag)
        part.saver_def.filename_tensor_name, part.saver_def.restore_op_name = "path:0", "restore"
        part.saver_def.save_tensor_name = "restore:0"
        if second:
            part.object_graph_def.nodes.add()
    (FOLDER / name / "variables").mkdir(parents=True)
    (FOLDER / name / "saved_model.pb").write_bytes(model.SerializeToString())


def main() -> None:
    """Write all files, and load each in a process of its own."""
    FOLDER.mkdir()
    CANARY.mkdir()
    for kind in ("write", "record", "summary", "save", "debug"):
        network = Network(kind)
        tf.saved_model.save(network, str(FOLDER / kind), signatures=network.__call__)
    keras("copy", "io.gfile.copy", "/etc/hostname", {"dst": str(CANARY / "copy"), "overwrite": True})
    keras("directory", "io.gfile.makedirs", str(CANARY / "directory"), {})
    first_version("restore")
    first_version("two-graphs", second=True)
    for file in CANARY.iterdir():  # tracing may have written too
        file.unlink()
    for path in sorted(FOLDER.iterdir()):
        before = set(CANARY.iterdir())
        code = LOAD if path.is_dir() else LOAD_KERAS
        subprocess.run([sys.executable, "-c", code, path], check=False, capture_output=True)
        if set(CANARY.iterdir()) - before:
            print(path.name)


if __name__ == "__main__":
    main()
