"""``pipeline``: the passes of a pipeline as one pass of TVM, for ``tvm.compile`` in the user's own process."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.api.common import catalog_paths
from passsearch.api.compiled_function import own_version
from passsearch.api.pipeline_file import load_pipeline
from passsearch.catalog import bind_pipeline, load
from passsearch.core import PassSpec, Pipeline, check_arguments, expand_home, install_command, suggest_name
from passsearch.dialects import dialect
from passsearch.dialects.contract import CompileError
from passsearch.errors import UserError

RELAX = "relax"


@check_arguments
def pipeline(name: str | Path, *, catalogs: Sequence[str | Path] = (), trust: bool = False) -> Any:
    """Return a pass for ``tvm.compile(module, target, relax_pipeline=passsearch.pipeline(name))``; Relax only.

    It applies the passes of the pipeline and TVM's lowering for the virtual machine, in this process: what the compiler
    does with a module that makes it crash ends this process, too. Nothing is checked; ``compile`` compares outputs.

    Args:
        name: A sequence of the catalog (``passsearch recommend`` names the one that suits a network), passes written
            out, or the folder that ``export`` wrote.
        trust: True to use passes that only a folder names.

    Raises:
        UserError: There is no such pipeline, it is of another dialect, or this interpreter lacks its TVM.
        ValueError: By ``tvm.compile``: it was given no target, or a pass fails.
    """
    files = catalog_paths(catalogs)
    steps, factories = _read(name, files, trust=trust)
    if not own_version():
        raise UserError(f"This interpreter has no TVM for Relax; run there: {install_command(RELAX)}")
    # Behind the others, as in a worker: a file beside a catalog must not hide an installed module.
    sys.path += [folder for folder in sorted({str(file.resolve().parent) for file in files}) if folder not in sys.path]
    return _as_pass(steps, factories)


def _read(name: str | Path, files: Sequence[Path], *, trust: bool) -> tuple[Pipeline, Mapping[str, str]]:
    """Return the passes of a pipeline, and ``module:function`` by pass name."""
    if expand_home(name).exists():
        loaded = load_pipeline(name, catalogs=files, trust=trust)
        if loaded.deployment.dialect.name != RELAX:
            raise UserError(f"`{name}` is of {loaded.deployment.dialect.name}; use load_pipeline(…).apply(module)")
        return loaded.pipeline, loaded.factories
    catalog = load(RELAX, *files)
    text = str(name)
    if text in catalog.sequences:
        steps = catalog.sequence(text).candidate().pipeline
    elif "," in text or "{" in text or text in catalog.entries:
        steps = Pipeline.parse(text)
    else:
        hint = suggest_name(text, catalog.sequences) or "passsearch recommend names the sequence that suits a network."
        raise UserError(f"No pipeline `{text}`: no folder, no pass and no sequence of Relax has this name; {hint}")
    return steps, {entry.name: entry.factory for entry in bind_pipeline(steps, catalog)}


def _as_pass(steps: Pipeline, factories: Mapping[str, str]) -> Any:
    """Return one pass of TVM for all steps and the lowering."""
    home, _, bridge_name = dialect(RELAX).bridge.partition(":")
    make_bridge = getattr(import_module(home), bridge_name)
    import tvm  # after the bridge, which imports it faster

    from passsearch.standalone.relax.deployment.lowering import lower

    def convert(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=True)
        if target is None:
            raise ValueError("a pipeline is for one processor: give tvm.compile its target, such as llvm")
        bridge = make_bridge(str(target))
        for step in steps.passes:
            module = _applied(bridge, module, step, factory=factories[step.name])
        return lower(module, level=0, target=target)

    return tvm.transform.module_pass(convert, opt_level=0, name="passsearch.pipeline")


def _applied(bridge: Any, module: Any, step: PassSpec, *, factory: str) -> Any:
    try:
        return bridge.apply(module, step, factory=factory)
    except CompileError as error:
        # TVM hands on errors of Python's own kinds alone.
        raise ValueError(f"{step} fails on this module: {error}") from error
