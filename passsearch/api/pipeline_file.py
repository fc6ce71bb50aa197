"""``load_pipeline``: the passes of an exported pipeline, for a module in the user's own process."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.api.common import catalog_paths
from passsearch.api.compiled_function import own_version
from passsearch.catalog import check_factories, load
from passsearch.core import Pipeline, check_arguments, expand_home, install_command
from passsearch.dialects.contract import CompileError
from passsearch.errors import UserError
from passsearch.export import PIPELINE, Deployment, read_pipeline

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LoadedPipeline:
    """The passes of a pipeline file.

    Attributes:
        deployment: The content of the file.
        factories: ``module:function`` that makes the pass, by pass name.
        folders: Folders of the user's own catalogs, beside which their modules lie.
    """

    deployment: Deployment
    factories: dict[str, str]
    folders: tuple[str, ...] = ()

    def __repr__(self) -> str:
        deployment = self.deployment
        count = len(self.pipeline)
        return f"<{type(self).__name__}: {count} passes of {deployment.dialect.name} for {deployment.title}>"

    @property
    def pipeline(self) -> Pipeline:
        """The passes in order."""
        return self.deployment.pipeline

    def apply(self, module: Any) -> Any:
        """Return a module after all passes; the build that follows is left to the user.

        Where the module is the network that the pipeline was searched for, its IR is compared with the recorded one
        after every pass.

        Args:
            module: A module of the dialect's IR, in this process.

        Raises:
            UserError: This interpreter lacks the TVM of the pipeline, a pass fails, or the IR is not the recorded one.
        """
        deployment = self.deployment
        if own_version() != deployment.tvm_version:
            raise UserError(
                f"The pipeline is of TVM {deployment.tvm_version}, and this interpreter has {own_version() or 'none'}; "
                f"run there: {install_command(deployment.dialect.name)}"
            )
        home, _, name = deployment.dialect.bridge.partition(":")
        bridge = getattr(import_module(home), name)(deployment.target)
        # Behind the others, as in a worker: a file beside a catalog must not hide an installed module.
        sys.path += [folder for folder in self.folders if folder not in sys.path]
        is_recorded = _hash(bridge, module) == deployment.ir_hashes[0].rstrip("+")
        _log.debug("the module is %s network of the pipeline", "the" if is_recorded else "not the")
        for place, step in enumerate(deployment.pipeline.passes, start=1):
            try:
                module = bridge.apply(module, step, factory=self.factories[step.name])
            except CompileError as error:
                raise UserError(f"Pass {place}, {step}, fails on this module: {error}") from error
            except ImportError as error:
                named = "is what it imports installed here?"
                hint = named if self.folders else 'name its catalog: load_pipeline(…, catalogs=["own.yaml"]).'
                raise UserError(f"Pass {place}, {step}, cannot be imported ({error}); {hint}") from error
            # A recorded hash ends with "+" if another IR of the search had the same hash.
            if is_recorded and _hash(bridge, module) != deployment.ir_hashes[place].rstrip("+"):
                raise UserError(f"After pass {place}, {step}, the IR is not the recorded one; was TVM built otherwise?")
        return module


@check_arguments
def load_pipeline(path: str | Path, *, catalogs: Sequence[str | Path] = (), trust: bool = False) -> LoadedPipeline:
    """Read an exported pipeline: ``load_pipeline("deploy").apply(module)``.

    Args:
        path: The folder that ``export`` wrote, or its ``pipeline.json``.
        trust: True to use passes that only the file names.

    Raises:
        UserError: The file cannot be read, or it names passes that are in no catalog.
    """
    path = expand_home(path)
    deployment = read_pipeline(path)
    files = catalog_paths(catalogs)
    catalog = load(deployment.dialect.name, *files)
    factories = check_factories(
        deployment.pipeline,
        deployment.factories,
        catalog,
        file=path if path.is_file() else path / PIPELINE,
        trust=trust,
    )
    return LoadedPipeline(deployment, factories, tuple(sorted({str(file.resolve().parent) for file in files})))


def _hash(bridge: Any, module: Any) -> str:
    return str(bridge.structural_hash(module))
