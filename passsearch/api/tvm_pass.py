"""``pipeline``: the passes of a pipeline as one pass of TVM, for ``tvm.compile`` in the user's own process."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.api.common import catalog_paths
from passsearch.api.compiled_function import own_toolchain
from passsearch.api.pipeline_file import load_pipeline
from passsearch.catalog import bind_pipeline, load, warn_of_conflicts
from passsearch.core import Pipeline, check_arguments, expand_home, install_command, suggest_name
from passsearch.dialects import DIALECTS, Dialect, dialect
from passsearch.errors import UserError


@check_arguments
def pipeline(name: str | Path, *, catalogs: Sequence[str | Path] = (), trust: bool = False) -> Any:
    """Return a pass for the argument of ``tvm.compile`` that takes a pipeline of the compiler.

    It applies the passes of the pipeline and TVM's lowering for the virtual machine, in this process: what the compiler
    does with a module that makes it crash ends this process, too. Nothing is checked; ``compile`` compares outputs.

    Args:
        name: A sequence of the catalog (``passsearch recommend`` names the one that suits a network), passes written
            out, or the folder that ``export`` wrote.
        trust: True to use passes that only a folder names.

    Raises:
        UserError: There is no such pipeline, it is of another dialect, or this interpreter has no TVM that takes one.
        ValueError: By ``tvm.compile``: it was given no target, or a pass fails.
    """
    own = own_toolchain()
    compiler = None if own is None else dialect(own.dialect)
    if compiler is None or not compiler.pipeline_maker:
        fitting = next(name for name, each in DIALECTS.items() if each.pipeline_maker)
        raise UserError(f"This interpreter has no TVM that takes a pipeline; run there: {install_command(fitting)}")
    files = catalog_paths(catalogs)
    steps, factories = _read(name, files, compiler, trust=trust)
    # Behind the others, as in a worker: a file beside a catalog must not hide an installed module.
    sys.path += [folder for folder in sorted({str(file.resolve().parent) for file in files}) if folder not in sys.path]
    home, _, function = compiler.pipeline_maker.partition(":")
    return getattr(import_module(home), function)(steps, factories)


def _read(
    name: str | Path, files: Sequence[Path], compiler: Dialect, *, trust: bool
) -> tuple[Pipeline, Mapping[str, str]]:
    """Return the passes of a pipeline, and ``module:function`` by pass name."""
    if expand_home(name).exists():
        loaded = load_pipeline(name, catalogs=files, trust=trust)
        if loaded.deployment.dialect.name != compiler.name:
            raise UserError(f"`{name}` is of {loaded.deployment.dialect.name}; use load_pipeline(…).apply(module)")
        return loaded.pipeline, loaded.factories
    catalog, text = load(compiler.name, *files), str(name)
    if text in catalog.sequences:
        steps = catalog.sequence(text).candidate().pipeline
    elif "," in text or "{" in text or text in catalog.entries:
        steps = Pipeline.parse(text)
        warn_of_conflicts(steps, catalog)
    else:
        hint = suggest_name(text, catalog.sequences) or "passsearch recommend names the sequence that suits a network."
        raise UserError(f"No pipeline `{text}`: no folder, pass or sequence has this name; {hint}")
    return steps, {entry.name: entry.factory for entry in bind_pipeline(steps, catalog)}
