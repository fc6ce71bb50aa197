"""Code that both dialects use. Loaded only in an interpreter that has a TVM."""

import ctypes
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import tvm

from passsearch.core import BuildOptions, suggest_name
from passsearch.errors import EnvironmentFault, UserError
from passsearch.standalone.deployment.linker import find_linker

APPLY_LEVEL = 4
"""Opt level of the context of a single pass. TVM skips a pass of a higher level; no candidate pass is above 4."""

MESSAGE_LENGTH = 300
"""Most characters of a compiler's error message that are reported."""

EXTERNAL_BYTES = 1024
"""Constants from this size on are written to the parameter file, because TVM parses arrays in its own JSON slowly."""

_STACK_LINES = ("File ", "[bt]", "Stack trace", "---", "^")

Producers: TypeAlias = "int | tuple[Producers, ...]"
"""Operators that compute an expression, by index. A tuple has nested tuples, so that a projection finds its field."""


def error_line(error: BaseException) -> str:
    """Return the line of a compiler error that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # TVM's messages open with a C++ stack trace; the reason comes last.
    reasons = [line for line in lines if not line.startswith(_STACK_LINES)]
    reason = (reasons or lines or [type(error).__name__])[-1][:MESSAGE_LENGTH]
    # The text of a KeyError is the key alone.
    return f"KeyError: {reason}" if isinstance(error, KeyError) else reason


def require_linker() -> str:
    """Return the path of the C compiler that links kernels.

    Raises:
        EnvironmentFault: This machine has no C compiler.
    """
    # A missing compiler is no fault of the candidate, so it must not become a ``CompileError``.
    try:
        return find_linker()
    except FileNotFoundError as error:
        raise EnvironmentFault(str(error)) from error


def as_accident(link: Callable[..., Any]) -> Callable[..., Any]:
    """Return TVM's linker, whose failures are accidents of the machine: no pass decides about what it does.

    The function that is returned raises ``OSError`` with the C compiler's last line; one that was killed has none.
    """

    @functools.wraps(link)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            return link(*arguments, **options)
        except RuntimeError as error:
            # The message has a title and, before or after the C compiler's output, its command.
            lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip() and " -shared " not in line]
            raise OSError(f"the C compiler failed: {lines[-1] if lines else 'it ended without a message'}") from error

    return checked


def parse_target(text: str, *, parse: Callable[[str], Any], errors: tuple[type[Exception], ...]) -> tvm.target.Target:
    """Return TVM's target object for a target text.

    Args:
        text: The target as the user wrote it.
        parse: Function that makes the object; TVM's versions differ in the spellings they accept.
        errors: Exceptions that ``parse`` raises for a text it does not accept.

    Raises:
        UserError: This TVM does not know the target, or was built without a code generator for it.
    """
    try:
        target = parse(text)
    except errors as error:
        raise UserError(f"Impossible target `{text}`: {error_line(error)}") from error
    kind = str(target.kind.name)
    # TVM parses targets it cannot generate code for; without this check the first build would fail.
    if tvm.get_global_func(f"target.build.{kind}", allow_missing=True) is None:
        raise UserError(f"Impossible target `{text}`: this TVM is built without `{kind}`. See: passsearch doctor")
    if kind == "llvm":
        _check_cpu(target, text)
    return target


def _check_cpu(target: tvm.target.Target, text: str) -> None:
    """Refuse a CPU of another triple: some versions of TVM fail at it in a build, others build for a generic CPU."""
    cpu, triple = (str(target.attrs.get(name, "")) for name in ("mcpu", "mtriple"))
    list_cpus = getattr(tvm.target.codegen, "llvm_get_cpu_archlist", None)
    if not cpu or not triple or list_cpus is None:
        return
    names = [str(name) for name in list_cpus(tvm.target.Target({"kind": "llvm", "mtriple": triple}))]
    if cpu not in names:
        suggestion = suggest_name(cpu, names)
        raise UserError(
            f"Impossible target `{text}`: LLVM has no CPU `{cpu}` for {triple}; "
            f"{suggestion + ' Otherwise ' if suggestion else ''}give the -mtriple of that CPU, or leave -mcpu out."
        )


def check_input_names(names: Collection[str], inputs: Collection[str]) -> None:
    """Raise an error if the user named an input that the network does not have.

    Raises:
        UserError: Names the unknown input and those the network has.
    """
    unknown = sorted(set(names) - set(inputs))
    if unknown:
        raise UserError(f"Unknown input `{unknown[0]}`; this network's inputs are: {', '.join(inputs)}.")


def load_function(factory: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names."""
    module, _, name = factory.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


class JsonFiles:
    """The methods of a bridge that write and read IR as TVM's JSON."""

    # With apache-tvm-ffi 0.1.15, writing any Relax module as JSON crashes; the lock files pin an earlier version.

    def write(self, skeleton: tvm.IRModule) -> str:
        """Return the skeleton as TVM's JSON."""
        return str(tvm.ir.save_json(skeleton))

    def read(self, text: str) -> tvm.IRModule:
        """Return the skeleton in TVM's JSON."""
        return tvm.ir.load_json(text)

    def save(self, module: tvm.IRModule, path: Path) -> None:
        """Write TVM's JSON, constants included; ``load`` of it, as format ``ir``, has the same identity."""
        # A process that dies while it writes leaves the earlier file whole.
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(tvm.ir.save_json(module))
        partial.replace(path)


def build_context(
    options: BuildOptions,
    *,
    opt_level: int,
    instruments: Sequence[object] = (),
    config: Mapping[str, object] | None = None,
) -> tvm.transform.PassContext:
    """Return the context in which TVM's own build pipeline runs; ``config`` replaces that of the options."""
    return tvm.transform.PassContext(
        opt_level=opt_level,
        required_pass=list(options.required),
        disabled_pass=list(options.disabled),
        config=dict(options.config) if config is None else dict(config),
        instruments=list(instruments),
    )


def parse_device(name: str) -> tuple[str, int]:
    """Return kind and index of a device: ``cuda:1`` is ``("cuda", 1)``, ``cpu`` is ``("cpu", 0)``."""
    kind, _, index = name.partition(":")
    return kind, int(index or 0)


def free_device_bytes(name: str) -> int | None:
    """Return the free memory of ``cuda:0``; ``None`` for a CPU, or for a TVM that does not ask the driver for it."""
    kind, index = parse_device(name)
    # TVM 0.16 has no such attribute.
    free_bytes = getattr(tvm.device(kind, index), "available_global_memory", None)
    return None if free_bytes is None else int(free_bytes)


class _ParallelGroup(ctypes.Structure):
    """``TVMParallelGroupEnv`` of tvm/runtime/c_backend_api.h."""

    _fields_ = (("sync_handle", ctypes.c_void_p), ("num_task", ctypes.c_int32))


_ParallelTask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_ParallelGroup), ctypes.c_void_p)


def count_parallel_tasks(runtime: ctypes.CDLL) -> int:
    """Return the number of tasks TVM makes of one parallel loop; ``runtime`` is TVM's runtime library."""
    counts: list[int] = []

    def task(_: int, group: Any, __: object) -> int:
        counts.append(group.contents.num_task)
        return 0

    # Counted by launching a loop: some builds of TVM make one task, whatever TVM_NUM_THREADS says.
    runtime.TVMBackendParallelLaunch(_ParallelTask(task), None, 0)
    return max(counts)


def limit_threads(count: int) -> None:
    """Limit the threads of kernels that the calling thread starts; TVM has a pool for each thread."""
    # 1 is TVM's code for fast cores first (``ThreadGroup::kBig``).
    tvm.get_global_func("runtime.config_threadpool")(1, count)


def read_ir_file(
    path: Path, *, ir: str, read: Callable[[Path], object] = lambda path: tvm.ir.load_json(path.read_text())
) -> tuple[tvm.IRModule, Mapping[str, Any]]:
    """Return the module of an IR file, and the arrays of the parameter file beside it, if there is one.

    Args:
        path: The JSON file.
        ir: Name of the IR for error messages.
        read: Reads the JSON file.

    Raises:
        UserError: The file holds an object that is no module.
    """
    module = read(path)
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"`{path}` holds a {type(module).__name__}; a {ir} module is needed.")
    parameters = parameter_file(path)
    return module, tvm.runtime.load_param_dict(parameters.read_bytes()) if parameters.exists() else {}


def require_functions(path: Path, functions: Collection[str], *, present: Collection[str]) -> None:
    """Raise an error if a module lacks a function.

    Args:
        path: The file of the module.
        functions: Names of the functions that are needed.
        present: Names of its functions of operators.

    Raises:
        UserError: Names the functions that the module has.
    """
    for function in functions:
        if function not in present:
            names = ", ".join(f"`{name}`" for name in present) or "no function"
            choice = f"choose one: --function {min(present)}" if present else "save a module with a function `main`"
            raise UserError(f"`{path.name}` has {names} but no `{function}`; {choice}")


def write_ir_file(
    module: object, path: Path, *, params: Mapping[str, object] | None, to_tensor: Callable[[object], Any], ir: str
) -> None:
    """Write a module to an IR file and its parameters to the parameter file beside it.

    Args:
        module: An ``IRModule``.
        path: The JSON file.
        params: Arrays by name.
        to_tensor: Makes an array of the compiler's from any array.
        ir: Name of the IR for error messages.

    Raises:
        UserError: ``module`` is no module, or ``params`` is no mapping of arrays.
    """
    if not isinstance(module, tvm.IRModule):
        raise UserError(f"A {ir} module is needed, got `{type(module).__name__}`; give a tvm.IRModule.")
    if params is not None and not isinstance(params, Mapping):
        raise UserError(f"Parameters are arrays by name, got `{type(params).__name__}`; give a dict.")
    if params:
        arrays = {name: to_tensor(value) for name, value in params.items()}
        parameter_file(path).write_bytes(tvm.runtime.save_param_dict(arrays))
    path.write_text(tvm.ir.save_json(module))


def parameter_file(path: Path) -> Path:
    """Return the path of the parameter file that belongs to an IR file: same name, suffix ``.params``."""
    return path.with_suffix(".params")


def flatten_producers(producers: Producers) -> tuple[int, ...]:
    """Return the operator indices of nested tuples, in order."""
    if isinstance(producers, int):
        return (producers,)
    return tuple(index for item in producers for index in flatten_producers(item))
