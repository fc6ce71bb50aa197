"""How a compiled network is called: like its source. The form is stored with the network as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from passsearch.core import Json
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile

Function: TypeAlias = Callable[..., Any]
"""A network as a function of its tensors in order; it returns one tensor, or nested tuples of them."""


class CallForm(Protocol):
    """Names and nesting of a network's inputs and outputs."""

    def bind(self, run: Function, inputs: Sequence[Any], device: str) -> Function:
        """Return a function that is called like the source.

        Its ``machine_pool.InputError`` says in one line which input is missing, unknown or of another type.

        Args:
            run: The built network.
            inputs: ``[name, dtype, shape]`` of its inputs in order.
            device: Kind of the device that it runs on.
        """

    def to_json(self) -> dict[str, Json]:
        """Return the form as ``read_form`` reads it."""


@dataclass(frozen=True)
class FileForm:
    """The form of a network in a file: arrays by place or name; outputs by name, or a tuple where they have no names.

    Attributes:
        outputs: Names of the outputs in order; empty where the file has none.
    """

    outputs: tuple[str, ...] = ()

    def bind(self, run: Function, inputs: Sequence[Any], device: str) -> Function:
        """See ``CallForm``."""
        # Imports numpy, which not every start needs.
        from passsearch.standalone.deployment.machine_pool import Signature

        signature = Signature(inputs)

        def call(*arrays: Any, **named: Any) -> Any:
            given = signature.by_name(arrays, named)
            checked = signature.check(given)
            # Tensors stay tensors, so that the outputs are tensors, too.
            values = [given[name] if hasattr(given[name], "detach") else array for name, array in checked.items()]
            return self._named(flat_outputs(run(*values)))

        return call

    def to_json(self) -> dict[str, Json]:
        """See ``CallForm``."""
        return {"kind": "file", "outputs": list(self.outputs)}

    def _named(self, values: Sequence[Any]) -> Any:
        return dict(zip(self.outputs, values, strict=True)) if self.outputs else tuple(values)


def flat_outputs(values: Any) -> list[Any]:
    """Return the tensors of nested tuples in order."""
    return [tensor for value in values for tensor in flat_outputs(value)] if isinstance(values, tuple) else [values]


def call_form(file: ModelFile) -> CallForm:
    """Return the form in which a network is called."""
    if file.form is not None:
        return file.form
    if file.format == "onnx":
        import onnx  # takes a third of a second, which other formats need not wait for

        return FileForm(tuple(each.name for each in onnx.load(file.path, load_external_data=False).graph.output))
    return FileForm()


def read_form(document: Mapping[str, Any]) -> CallForm:
    """Return the form that a deployment has stored; that of a file without names where it has stored none.

    Raises:
        UserError: The form needs a framework that is not installed, or cannot be stored.
    """
    if reason := document.get("unsaved"):
        raise UserError(f"The nesting of its results cannot be stored ({reason}); compile the network again.")
    if document.get("kind") != "torch":
        return FileForm(tuple(map(str, document.get("outputs", ()))))
    try:
        form: CallForm = import_module("passsearch.frontends.torch_form").TorchForm.from_json(document)
    except ModuleNotFoundError as error:
        raise UserError(f"It is called with PyTorch's tensors ({error}); run: pip install torch") from error
    return form
