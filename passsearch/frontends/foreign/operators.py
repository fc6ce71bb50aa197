"""The operators that files of networks may use, by framework: those that only compute from their inputs."""

from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


@cache
def allowed(name: str) -> frozenset[str]:
    """Return the words of a list in this folder; lines that begin with ``#`` are comments.

    Args:
        name: Its name: a framework for its operators, ``keras`` for classes, ``keras_activations`` and
            ``keras_operators`` for functions.
    """
    lines = (_HERE / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
