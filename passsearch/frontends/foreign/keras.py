"""Code and files in models of Keras: only Keras's own layers and functions of TensorFlow that compute are allowed.

Before Keras 3.9 its `safe_mode` let a configuration import any function (CVE-2025-1550); ``.h5`` files have no safe
mode (CVE-2025-9905); a layer ``TFOpLambda`` calls any function of TensorFlow by name.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from passsearch.core import archive_documents, check_archive
from passsearch.frontends.foreign import hdf5
from passsearch.frontends.foreign.operators import allowed

_OWN_MODULES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras")
_CALLS = frozenset({"TFOpLambda", "SlicingOpLambda"})
_LAMBDAS = frozenset({"Lambda", "__lambda__"})
# Keras reads `model.weights.npz` with pickles.
_ENTRIES = r"config\.json|metadata\.json|model\.weights\.h5|assets/.*"


def violations_in_archive(path: Path) -> Iterator[str]:
    """Yield the code in a ``.keras`` archive."""
    unfit = list(check_archive(path, _ENTRIES))
    yield from unfit
    if unfit:
        return
    yield from hdf5.violations_in_archive(path)
    for name, content in archive_documents(path):
        # Losses and metrics, often the user's own functions, are not loaded (`compile=False`); those of models within
        # the model are.
        is_model = name == "config.json" and isinstance(content, dict)
        yield from violations_in_configuration({**content, "compile_config": None} if is_model else content)


def violations_in_hdf5(path: Path) -> Iterator[str]:
    """Yield the code in an ``.h5`` file."""
    unfit = list(hdf5.violations_in_file(path))
    yield from unfit
    if not unfit and (configuration := hdf5.attribute(path, "model_config")) is not None:
        yield from violations_in_configuration(json.loads(configuration))


def violations_in_configuration(root: Any) -> Iterator[str]:
    """Yield the code in the configuration of a layer and in all that are part of it."""
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        if isinstance(node, dict):
            yield from _violations_in_object(node)
            left += node.values()


def _violations_in_object(node: dict[str, Any]) -> Iterator[str]:
    name, module, inner = node.get("class_name"), node.get("module"), node.get("config")
    if name in _LAMBDAS:
        yield "a Lambda layer, which holds Python code"
    elif name == "function":
        if str(inner) not in allowed("keras_activations") or not _is_own(module):
            yield f"the function `{module}:{inner}`"
    elif name in _CALLS:
        yield from _violations_in_call(inner)
    elif isinstance(name, str) and (
        name.rpartition(">")[2] not in allowed("keras") or ">" in name or not _is_own(module)
    ):
        yield f"`{module}:{name}`" if module else f"`{name}`"
    elif name is not None and not isinstance(name, str):
        yield "a class that is no name"
    for key, value in node.items():
        if key.endswith("activation") and isinstance(value, str) and value not in allowed("keras_activations"):
            yield f"the activation `{value}`"
        if key in ("vocabulary", "vocabulary_file", "idf_weights") and isinstance(value, str):
            yield f"the file `{value}` that a layer reads"


def _violations_in_call(configuration: Any) -> Iterator[str]:
    name = str(configuration.get("function")) if isinstance(configuration, dict) else "?"
    known = name.removeprefix("tf.").removeprefix("compat.v1.")
    if known not in allowed("keras_operators") and not known.startswith("__operators__."):
        yield f"the function `{name}`"


def _is_own(module: Any) -> bool:
    if module in (None, "builtins"):
        return True
    return any(module == own or str(module).startswith(f"{own}.") for own in _OWN_MODULES)
