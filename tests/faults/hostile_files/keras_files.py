"""Models of Keras that call functions by name, import modules or read other files."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostile_files.zip_files import archive

LAYERS: dict[str, dict[str, Any]] = {
    "lambda": {"class_name": "Lambda", "config": {}},
    "lambda-value": {"class_name": "Dense", "config": {"activation": {"class_name": "__lambda__", "config": {}}}},
    "class": {"class_name": "Popen", "module": "subprocess", "config": {}},
    "typespec": {"class_name": "__typespec__", "spec_name": "x", "module": "antigravity", "config": {}},
    "builtin": {"class_name": "function", "module": "builtins", "config": "eval"},
    "download": {"class_name": "function", "module": "keras.utils", "config": "get_file"},
    "write": {"class_name": "TFOpLambda", "config": {"function": "io.write_file"}},
    "copy": {"class_name": "TFOpLambda", "module": "keras.src.layers", "config": {"function": "io.gfile.copy"}},
    "library": {"class_name": "TFOpLambda", "config": {"function": "compat.v1.load_library"}},
    "python": {"class_name": "TFOpLambda", "config": {"function": "numpy_function"}},
    "method": {"class_name": "ClassMethod", "config": {"cls_symbol": "io.TFRecordWriter", "method_name": "write"}},
    "operator": {"class_name": "TensorFlowOpLayer", "config": {"node_def": "{'op': 'WriteFile'}"}},
    "inner": {"class_name": "Sequential", "config": {}, "compile_config": {"loss": {"class_name": "X", "module": "x"}}},
    "words": {"class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}},
    "package": {"class_name": "Mine>Dense", "config": {}},
    "activation": {"class_name": "Dense", "config": {"activation": "serialize"}},
    "saved-model": {"class_name": "TFSMLayer", "module": "keras.layers", "config": {"filepath": "/tmp/x"}},
    "module": {"class_name": "TorchModuleWrapper", "module": "keras.layers", "config": {}},
}


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    for name, layer in LAYERS.items():
        content = json.dumps({"class_name": "Functional", "config": {"layers": [layer]}})
        yield archive(folder / f"keras-{name}.keras", {"config.json": content})
    yield archive(folder / "keras-pickle.keras", {"config.json": "{}", "model.weights.npz": "x"})
    yield archive(folder / "keras-other.keras", {"config.json": "{}", "model.pkl": "x"})
    if importlib.util.find_spec("h5py"):
        yield from _hdf5(folder)


def _hdf5(folder: Path) -> Iterator[Path]:
    import h5py
    import numpy as np

    for name in ("lambda", "write", "copy", "library", "operator", "method"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.attrs["model_config"] = json.dumps({"config": {"layers": [LAYERS[name]]}})
        yield folder / f"{name}.h5"
    with h5py.File(folder / "external.h5", "w") as file:
        file["weights"] = h5py.ExternalLink("/etc/other.h5", "/")
    yield folder / "external.h5"
    with h5py.File(folder / "storage.h5", "w") as file:
        file.create_dataset("weights", (8,), "u1", external=[("/etc/passwd", 0, 8)])
    yield folder / "storage.h5"
    with h5py.File(folder / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((4,), "u1")
        layout[:] = h5py.VirtualSource("/etc/other.h5", "x", (4,))
        file.create_virtual_dataset("weights", layout)
    yield folder / "virtual.h5"
    with h5py.File(folder / "bomb.h5", "w") as file:
        file.create_dataset("weights", (1 << 36,), np.float32, chunks=(1 << 20,), compression="gzip")
    yield folder / "bomb.h5"
