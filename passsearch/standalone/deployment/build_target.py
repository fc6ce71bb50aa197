"""The target of a deployment script: what its code needs of a processor, and whether this machine has it."""

from __future__ import annotations

import platform
from typing import Any

import processor
from checked_files import DeploymentError, last_line

ERRORS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)
"""Classes of errors that TVM raises, by version, for a target or a device that it does not have."""

OTHER = "name another with --target, or tune where it is to run"


def parse(parse_target: Any, text: str) -> Any:
    """Return TVM's target of a text; raise an error if it has none or LLVM does not know the processor."""
    try:
        target = parse_target(text)
        host = _llvm_target(target)
        name = str(host.attrs.get("mcpu", "")) if host is not None else ""
        known = _ask("target.llvm_get_cpu_archlist", host) if host is not None else ()
    except ERRORS as error:
        raise DeploymentError(f"TVM has no target `{text}` ({last_line(error)}); {OTHER}.") from None
    if name and known and name not in map(str, known):
        raise DeploymentError(f"LLVM has no processor `{name}` (target `{text}`); {OTHER}.")
    return target


def device_kind(target: Any) -> str:
    """Return the kind of the device that a target is for."""
    return "cpu" if "cpu" in target.keys else str(target.kind.name)


def needs(target: Any) -> list[str]:
    """Return the architecture and the features that the code of a target needs of a processor."""
    host = _llvm_target(target)
    if host is None:
        return [platform.machine()]
    triple = str(host.attrs.get("mtriple", "")) or str(_ask("tvm.codegen.llvm.GetDefaultTargetTriple") or "")
    features = processor.needs(map(str, _ask("target.llvm_get_cpu_features", host) or ()))
    return [triple.partition("-")[0] or platform.machine(), *features]


def require_machine(target: Any, needed: list[str]) -> None:
    """Raise an error if this machine cannot run what is built."""
    import tvm

    kind = device_kind(target)
    lacking = processor.missing(needed[0], needed[1:])
    if lacking:
        raise DeploymentError(
            f"The target `{target}` needs a processor with {', '.join(lacking)}, which this one lacks; {OTHER}."
        )
    try:
        exists = kind == "cpu" or tvm.device(kind, 0).exist
    except ERRORS:
        exists = False
    if not exists:
        raise DeploymentError(f"The target `{target}` needs a {kind} device, which this machine lacks; {OTHER}.")


def _llvm_target(target: Any) -> Any:
    """Return the part of a target that LLVM compiles; ``None`` without one."""
    host = getattr(target, "host", None)
    return next((each for each in (target, host) if each is not None and each.kind.name == "llvm"), None)


def _ask(question: str, *arguments: Any) -> Any:
    """Return what a function of TVM answers; ``None`` for a TVM that lacks it, as 0.8 to 0.15 do."""
    import tvm

    function = tvm.get_global_func(question, allow_missing=True)
    return function(*arguments) if function is not None else None
