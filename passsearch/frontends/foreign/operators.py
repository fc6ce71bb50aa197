"""The operators that files of networks may use, by framework: those that only compute from their inputs."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def tensorflow_operators() -> frozenset[str]:
    """Names of TensorFlow's operators that compute, or read and write the network's own variables and tables."""
    return _read("tensorflow.txt")


@cache
def torch_operators() -> frozenset[str]:
    """Names of PyTorch's operators, without namespace and overload, that compute."""
    return _read("torch.txt")


@cache
def mxnet_operators() -> frozenset[str]:
    """Names of MXNet's operators that compute."""
    return _read("mxnet.txt")


@cache
def compiler_operators() -> frozenset[str]:
    """Names of operators of the compilers' modules that compute."""
    return _read("compiler.txt")


@cache
def keras_names() -> frozenset[str]:
    """Names of Keras's own layers, initializers, regularizers, constraints and policies."""
    return _read("keras.txt")


@cache
def keras_activations() -> frozenset[str]:
    """Names of Keras's own activations."""
    return _read("keras_activations.txt")


@cache
def keras_operators() -> frozenset[str]:
    """Names of TensorFlow's functions that a Keras model may have between its layers."""
    return _read("keras_operators.txt")


def _read(name: str) -> frozenset[str]:
    """Return the words of a list; lines that begin with ``#`` are comments."""
    lines = (_HERE / name).read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
