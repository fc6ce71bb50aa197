"""The sides of ``regress`` as users name them: engines, versions, toolchains, pipelines, runs and exports."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from passsearch.api.common import run_folder
from passsearch.api.engine_request import QUALIFIED
from passsearch.core import Pipeline, expand_home
from passsearch.engines import declarations, unknown_engine_error
from passsearch.errors import UserError
from passsearch.export import PIPELINE, Deployment, read_pipeline
from passsearch.store import read_result
from passsearch.toolchain import Toolchain, get_toolchain, list_toolchains

_VERSIONED = re.compile(r"([a-z][a-z0-9:_-]*)==([0-9][\w.+!-]*)")
_VERSION = re.compile(r"\d+(\.\w+)+")
_TVM = "tvm"


@dataclass(frozen=True)
class RecordedBuild:
    """What a run or a pipeline file says of its build.

    Attributes:
        network: Name of the network.
        sha256: Digest of its file; empty if it was not recorded.
        tvm_version: Version of the TVM.
        target: TVM's target.
    """

    network: str
    sha256: str
    tvm_version: str
    target: str


@dataclass(frozen=True)
class SideRequest:
    """One side as the user names it.

    Attributes:
        text: The user's text.
        engine: Name of an engine; empty for TVM.
        version: Version of the engine; empty for what is installed.
        options: Options of the engine's session.
        toolchain: The toolchain of a pipeline.
        pipeline: The pipeline, as ``read_candidate`` reads it; ``None`` for the toolchain's default.
        run: The run folder that it names.
        recorded: What the run or pipeline file says of its build.
    """

    text: str
    engine: str = ""
    version: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Toolchain | None = None
    pipeline: str | None = None
    run: Path | None = None
    recorded: RecordedBuild | None = None

    def remark(self, *, tvm_version: str, target: str) -> str:
        """Return how the build differs from that of the run or pipeline file; empty if it does not."""
        record = self.recorded
        if record is None or (record.tvm_version, record.target) == (tvm_version, target):
            return ""
        return (
            f"`{self.text}` was made by TVM {record.tvm_version} for `{record.target}`; here TVM {tvm_version} builds "
            f"it for `{target}`"
        )


def read_side(text: str) -> SideRequest:
    """Return what a user names.

    Raises:
        UserError: The text is none of an engine, a toolchain, a version of TVM, a run or an export.
    """
    if run := run_folder(text):
        result = read_result(run)
        model, chain = result["model"], result["toolchain"]
        recorded = RecordedBuild(model["name"], model["sha256"], chain["tvm_version"], result["target"])
        return SideRequest(text, toolchain=get_toolchain(chain["name"]), pipeline=text, run=run, recorded=recorded)
    if file := _pipeline_file(text):
        deployment = read_pipeline(file)
        name, digest = (str(deployment.model.get(key) or "") for key in ("name", "sha256"))
        recorded = RecordedBuild(name, digest, deployment.tvm_version, deployment.target)
        return SideRequest(text, toolchain=_toolchain_of(deployment), pipeline=str(file), recorded=recorded)
    head, brace, rest = text.partition("{")
    if engine := _read_engine(text, head, brace + rest):
        return engine
    names = {each.name: each for each in list_toolchains()}
    if text in names:
        return SideRequest(text, toolchain=names[text])
    if match := QUALIFIED.fullmatch(text):
        return SideRequest(text, toolchain=get_toolchain(match[1]), pipeline=match[2])
    version = text.removeprefix(f"{_TVM}==")
    if _VERSION.fullmatch(version):
        return SideRequest(text, toolchain=_toolchain_of_version(version))
    others = f"; toolchains: {', '.join(names) or 'none'}; or TOOLCHAIN:PIPELINE, a run folder, an export folder"
    raise UserError(
        f"`{text}` is nothing to compare. Engines: {', '.join(declarations())}, also as NAME==VERSION{others}."
    )


def _pipeline_file(text: str) -> Path | None:
    """Return the pipeline file that a text names, itself or by the folder of an export; ``None`` if there is none."""
    path = expand_home(text)
    if text.endswith(".json"):
        return path
    try:
        return path / PIPELINE if (path / PIPELINE).is_file() else None
    except OSError:  # a pipeline that is longer than a file name may be
        return None


def _read_engine(text: str, head: str, options: str) -> SideRequest | None:
    """Return an engine ``NAME``, ``NAME==VERSION`` or either with options; ``None`` if the text names none."""
    versioned = _VERSIONED.fullmatch(head)
    name, version = (versioned[1], versioned[2]) if versioned else (head, "")
    if name == _TVM or (not versioned and name not in declarations()):
        return None
    if name not in declarations():
        raise unknown_engine_error(name)
    if "cpu" not in declarations()[name].devices:
        raise UserError(f"`regress` runs on processors, and `{name}` runs on GPUs only.")
    if options and "options" not in signature(import_module(declarations()[name].adapter).open_engine).parameters:
        raise UserError(f"`{name}` takes no options of a session; leave out `{options}`.")
    return SideRequest(text, engine=name, version=version, options=_options(text, head, options) if options else {})


def _options(text: str, head: str, options: str) -> Mapping[str, Any]:
    try:
        # The arguments of a pass have the same form.
        passes = Pipeline.parse(f"options{options}").passes
    except UserError:
        passes = ()
    if len(passes) != 1 or not passes[0].argument_values:
        raise UserError(f"Options read `{head}{{name=value}}`, with values as in JSON; got `{text}`.")
    return passes[0].argument_values


def _toolchain_of_version(version: str) -> Toolchain:
    """Return the toolchain with a version of TVM, also by its beginning."""
    chains = list_toolchains()
    found = [each for each in chains if each.tvm_version == version]
    found = found or [each for each in chains if each.tvm_version.startswith(f"{version}.")]
    if not found:
        there = ", ".join(f"{each.tvm_version} ({each.name})" for each in chains) or "none"
        raise UserError(
            f"No toolchain has TVM {version}; there are: {there}. Register it: passsearch toolchain add NAME --python "
            "PATH"
        )
    return found[0]


def _toolchain_of(deployment: Deployment) -> Toolchain:
    """Return a toolchain with the TVM of a pipeline file, or one of its dialect."""
    chains = [each for each in list_toolchains() if each.dialect == deployment.dialect.name]
    same = [each for each in chains if each.tvm_version == deployment.tvm_version]
    return same[0] if same else get_toolchain(None, dialect=deployment.dialect.name)
