"""``CompiledNetwork``: what ``compile`` returns, a function that is called like the network's source."""

import json
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import passsearch.results as results
from passsearch.api.compiled_function import open_built, own_version
from passsearch.api.sizes import sized_inputs
from passsearch.core import MAIN, check_arguments, expand_home, install_command, printable
from passsearch.errors import UserError
from passsearch.export import ARTIFACT_FOLDER, COMPILATION, Deployment, copy_deployment, read_pipeline
from passsearch.frontends import CallForm, read_form
from passsearch.report import compiled_headline, compiled_text
from passsearch.standalone.deployment import processor
from passsearch.standalone.deployment.checked_files import Built, DeploymentError
from passsearch.store import write_json
from passsearch.worker import ScratchFolder


class CompiledNetwork(dict[str, Any]):
    """The result of ``compile``: a function that is called like the source; any number of threads may call it.

    The network of a PyTorch module takes the arguments of its ``forward`` and returns what it returns, with the same
    names and nesting; tensors are copied only where memory would be shared or is not aligned. The network of a file
    takes arrays or tensors by place or name and returns its outputs by name. ``passsearch.InputError`` says in one line
    which input is missing, unknown or of another type.

    The items are those of ``passsearch compile --json``. The first call loads the network, which needs the TVM that
    compiled it in this interpreter. A network that was compiled without ``to`` is deleted with this object.
    """

    def __init__(
        self, document: Mapping[str, Any], *, scratch: ScratchFolder | None = None, form: CallForm | None = None
    ) -> None:
        """Keep the document of ``compile``.

        Args:
            document: The document.
            scratch: The folder of the deployment, where it is a temporary one.
            form: How the network is called; by default as the deployment says.
        """
        super().__init__(document)
        self._form, self._loading = form, Lock()
        self._function: Callable[..., Any] | None = None
        if scratch is not None:
            weakref.finalize(self, scratch.close)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the network once.

        Raises:
            InputError: An input is missing, unknown, or of another type, shape or device.
            UserError: The network cannot be loaded here.
        """
        return (self._function or self.load())(*inputs, **named)

    def load(self) -> Callable[..., Any]:
        """Load the network into this process, which else the first call does; return the function."""
        with self._loading:
            if self._function is None:
                self._function = _open(Path(self["folder"]), self._form)
            return self._function

    def save(self, folder: str | Path) -> Path:
        """Write the deployment to a folder, from which ``passsearch.load`` reads it; return the folder's path.

        Raises:
            UserError: The folder has other files, is of another network or cannot be written.
        """
        copy = copy_deployment(Path(self["folder"]), expand_home(folder))
        write_json(copy / COMPILATION, {**self, "folder": str(copy)})
        return copy

    @property
    def pipeline(self) -> str:
        """The passes in order."""
        return results.Compilation.from_json(self).pipeline.passes

    @property
    def expected(self) -> dict[str, Any]:
        """What the outputs were compared with before the network was exported.

        The items are ``kind``, ``runtime`` and ``reason`` of ``passsearch.results.Reference``, and ``tolerance``, the
        largest deviation of an output as a share of its largest magnitude.
        """
        deployment = read_pipeline(Path(self["folder"]))
        return {key: self["reference"][key] for key in ("kind", "runtime", "reason")} | {
            "tolerance": deployment.tolerance
        }

    @property
    def summary(self) -> str:
        """How fast it is, and how that compares with other engines, in a sentence."""
        return printable(compiled_headline(results.Compilation.from_json(self)))

    @property
    def report(self) -> str:
        """What was built, why, and how fast it is beside other engines, as text."""
        return printable(compiled_text(results.Compilation.from_json(self)), keep="\n")

    @property
    def is_slower(self) -> bool:
        """True if a rival is faster by both ratios, and by the whole interval of one."""
        return any(rival.is_ahead for rival in results.Compilation.from_json(self).measured_rivals.values())

    def __repr__(self) -> str:
        return self.report


@check_arguments
def load(folder: str | Path) -> CompiledNetwork:
    """Load a network that ``compile`` has written, ``compile(model, to=folder)`` or ``save(folder)``.

    Raises:
        UserError: The folder is another one or damaged, or this interpreter lacks the TVM that compiled it.
    """
    path = expand_home(folder).resolve()
    try:
        document = json.loads((path / COMPILATION).read_text())
        network = CompiledNetwork({**document, "folder": str(path)})
        results.Compilation.from_json(network)
    except OSError as error:
        raise UserError(f"`{path}` is no folder that compile has written: {COMPILATION}: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"`{path / COMPILATION}` is damaged ({error}); compile the network again.") from None
    network.load()
    return network


def _open(folder: Path, form: CallForm | None) -> Callable[..., Any]:
    """Return the function of a deployment folder, in the form of its source."""
    deployment = read_pipeline(folder)
    opener = deployment.dialect.opener
    if not opener:
        raise UserError(
            f"A network compiled by {deployment.dialect.name} does not load here; use {folder}/run_model.py."
        )
    if deployment.calls and not deployment.sizes:
        raise UserError(f"The network has several functions; load one by run_model.load of `{folder}`.")
    try:
        built = Built(folder / ARTIFACT_FOLDER)
        inputs: Any = sized_inputs(built, deployment.sizes) if deployment.sizes else built.function(MAIN)
        _check_machine(built, deployment)
        run = open_built(opener, built, deployment.target)
    except DeploymentError as error:
        raise UserError(str(error)) from None
    return (form or read_form(deployment.form)).bind(run, inputs, built.device)


def _check_machine(built: Built, deployment: Deployment) -> None:
    """Raise an error where the network cannot be loaded into this process."""
    # Compiled files are made for the runtime of the TVM that compiled them.
    if own_version() != built.tvm_version:
        raise UserError(
            f"This needs TVM {built.tvm_version} in the interpreter you call it from ({sys.executable}), which has "
            f"{own_version() or 'none'}; run there: {install_command(deployment.dialect.name)}"
        )
    if lacking := processor.missing(built.processor[0], built.processor[1:]):
        raise UserError(f"The network was compiled for a processor with {', '.join(lacking)}, which this one lacks.")
