"""The engines that there are: what their adapters declare, and which of them are installed."""

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from passsearch.core import QUANTIZED_LIMIT, suggest_name
from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines import adapters
from passsearch.engines.client import EngineSpec
from passsearch.errors import EnvironmentFault, UserError
from passsearch.toolchain import Finding, engine_python, install_engine, installed_versions

_log = logging.getLogger(__name__)

_VERSION = re.compile(r"[0-9][\w.+!-]*")

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "plaidml": "nobody maintains it; its last release, 0.7.0, is of 2020",
        "llama.cpp": "it has the keys and values of earlier tokens itself, where other engines get them as inputs",
        "migraphx": "it needs a GPU of AMD and ROCm, and passsearch has no adapter for them",
    }
)
"""Engines that users may look for, with the reason why there is no adapter."""


@dataclass(frozen=True)
class Declaration:
    """One engine, as its adapter declares it.

    Attributes:
        name: Name that users type.
        adapter: Full name of the adapter's module.
        environment: The packages that it needs.
        settings: Keywords of the adapter's ``open_engine``.
        devices: Kinds of devices that it runs on.
        is_lowered: True if the engine may compute in less than the network's precision.
    """

    name: str
    adapter: str
    environment: EngineEnvironment
    settings: Mapping[str, Any]
    devices: tuple[str, ...] = ("cpu",)
    is_lowered: bool = False

    @property
    def install_command(self) -> str:
        """The command that installs the engine."""
        return f"passsearch toolchain install {self.environment.name}"


@cache
def declarations() -> Mapping[str, Declaration]:
    """Return all engines by name."""
    found = {}
    for module in sorted(iter_modules(adapters.__path__), key=lambda each: each.name):
        name = f"{adapters.__name__}.{module.name}"
        adapter = import_module(name)
        for engine, settings in adapter.ENGINES.items():
            is_lowered = engine in getattr(adapter, "LOWERED", ())
            devices = getattr(adapter, "DEVICES", ("cpu",))
            found[engine] = Declaration(engine, name, adapter.ENVIRONMENT, settings, devices, is_lowered)
    return MappingProxyType(found)


def installed_engines(names: Iterable[str], model: Path, *, python: Path | None = None) -> list[EngineSpec]:
    """Return those of some engines that are installed."""
    specs = []
    for name in names:
        try:
            specs.append(engine_spec(name, model, python=python))
        except EnvironmentFault as error:  # noqa: PERF203 -- three engines
            _log.debug("left out: %s", error)
    return specs


def _python(engine: Declaration) -> Path | None:
    """Return this interpreter if it has an engine, else that of the installed environment; ``None`` without both."""
    # The packages of GPUs have the names of those of processors.
    is_here = "cpu" in engine.devices and all(find_spec(module) for module in engine.environment.modules)
    return Path(sys.executable) if is_here else engine_python(engine.environment)


def engine_environments() -> Mapping[str, EngineEnvironment]:
    """Return the environments that ``passsearch toolchain install`` accepts beside those of dialects, by name."""
    return {each.environment.name: each.environment for each in declarations().values()}


def engine_environment(name: str) -> EngineEnvironment | None:
    """Return the environment of an engine, or of one of its versions (``NAME==VERSION``); ``None`` for other names."""
    engine, is_version, version = name.partition("==")
    environment = engine_environments().get(engine)
    if environment is None or not is_version:
        return environment
    return environment.of_version(version) if _VERSION.fullmatch(version) else None


def install_version(name: str, version: str, *, progress: Callable[[str], None] = lambda stage: None) -> Path:
    """Return the interpreter with a version of an engine, in an environment of its own that is made once and kept.

    Raises:
        UserError: There is no such engine, or the package index has no such version.
        EnvironmentFault: It cannot be installed.
    """
    engine = declarations().get(name)
    if engine is None:
        raise unknown_engine_error(name)
    return install_engine(engine.environment.of_version(version), progress=progress)


def engine_spec(
    name: str,
    model: Path,
    *,
    python: Path | None = None,
    label: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> EngineSpec:
    """Return an engine with the network that it shall run.

    Args:
        name: Name of the engine.
        model: The network's ONNX file.
        python: Interpreter that has the engine; by default this one if it has it, else the installed environment.
        label: Name in results; ``name`` by default.
        environment: Further environment variables.
        settings: Keywords of the adapter's ``open_engine`` in addition to those that it declares.

    Raises:
        UserError: The name is unknown.
        EnvironmentFault: The engine is not installed.
    """
    engine = declarations().get(name)
    if engine is None:
        raise unknown_engine_error(name)
    interpreter = python or _python(engine)
    if interpreter is None:
        raise EnvironmentFault(f"Engine `{name}` is not installed. Run: {engine.install_command}")
    return EngineSpec(
        label or name,
        engine.adapter,
        interpreter,
        model,
        settings={**engine.settings, **settings},
        modules=engine.environment.modules,
        environment=environment,
        limit=QUANTIZED_LIMIT if engine.is_lowered else None,
    )


def unknown_engine_error(name: str) -> UserError:
    """Return the error for a name that is none of an engine."""
    if name in UNAVAILABLE:
        return UserError(f"Engine `{name}` is not available: {UNAVAILABLE[name]}.")
    names = list(declarations())
    return UserError(
        f"Unknown engine `{name}`; {suggest_name(name, names)} Engines: {', '.join(names)}, "
        "or TOOLCHAIN:PIPELINE for TVM, such as a baseline, a named sequence or a pipeline file."
    )


def engine_findings() -> tuple[Finding, ...]:
    """Return what ``passsearch doctor`` says about engines; none of them is needed for a search."""
    findings = []
    for name, engine in declarations().items():
        python = _python(engine)
        detail, remedy = (f"installed, {python}", "") if python else ("not installed", f"Run: {engine.install_command}")
        findings.append(Finding(f"engine {name}", True if python else None, detail, remedy))
    for version, python in installed_versions().items():
        remedy = f"To delete it: passsearch toolchain remove {version}"
        findings.append(Finding(f"engine {version}", True, f"installed for `regress`, {python}", remedy))
    findings += [Finding(f"engine {name}", None, f"not available: {reason}") for name, reason in UNAVAILABLE.items()]
    return tuple(findings)
