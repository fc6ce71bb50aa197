"""The options that a user gives together with a network."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from passsearch.core import DeclaredInput, TensorType, resolve_inputs
from passsearch.errors import UserError

PATHS = (
    ".onnx, TorchScript .pt, torch.export .pt2, a SavedModel's folder, a frozen graph .pb, .tflite, .keras, .h5, "
    "MXNet's NAME-symbol.json with NAME-0000.params beside it, a folder with transformers' config.json, "
    "a compiler module's .json with .params beside it"
)
EXPORT_ADVICE = f"export it as ONNX and give that file. Accepted: {PATHS}."

LINE = 240
"""Longest text of a framework's error, in characters, that an error message repeats."""


@dataclass(frozen=True)
class ModelRequest:
    """The options that every front end receives with a network.

    Attributes:
        source: The path or name that the user typed, or the type of the object.
        inputs: Types by input name, where the user states them.
        batch: Size for open first dimensions; ``None`` if the user states none.
        folder: Folder for files that are made from objects.
        example_inputs: Inputs with which a module or block is traced.
        formats: Formats that the compiler imports, where a front end has a choice; empty for all.
        trust: True to run code that the network's file contains.
        function: Function of a compiler module that is tuned; empty for ``main``.
    """

    source: str
    inputs: Mapping[str, TensorType]
    batch: int | None
    folder: Path
    example_inputs: object = None
    formats: frozenset[str] = frozenset()
    trust: bool = False
    function: str = ""

    def bind_inputs(self, declarations: Iterable[DeclaredInput]) -> dict[str, TensorType]:
        """Return the type of every declared input, with open dimensions bound by ``inputs`` and ``batch``.

        Raises:
            UserError: An input is unknown, contradicts the network, or stays open.
        """
        return resolve_inputs(tuple(declarations), types=self.inputs, batch=self.batch)

    def complete_inputs(self, subject: str) -> Mapping[str, TensorType]:
        """Return the inputs that the user states, for a network that declares none.

        Args:
            subject: The network in a message.

        Raises:
            UserError: The user states none, or one without its dtype.
        """
        if not self.inputs:
            example = "--input image:float32[1,3,224,224]"
            raise UserError(f"{subject} does not declare its inputs; give each in order, for example: {example}")
        for name, kind in self.inputs.items():
            if not kind.dtype:
                raise UserError(f"{subject} does not declare the dtype of `{name}`; add --input {name}:float32[…].")
        return self.inputs


def first_line(error: BaseException) -> str:
    """Return the first line of a framework's error, cut to a length that fits a terminal."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= LINE else line[: LINE - 1] + "…"
