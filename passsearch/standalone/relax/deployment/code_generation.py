"""Code of the kernels of a network for a CPU: each kernel is a module of its own, and all cores generate code.

TVM's own build generates the code of all kernels as one module, on one core. The code of a kernel is the same either
way.

LLVM 22 makes wrong vectors of ``data[base + i % 8]`` with places of 32 bits: it checks that the sum does not wrap, and
not that ``i`` in three bits does not, and reads beyond the remainder. ``Tile`` makes such places. Functions with
remainders of powers of two keep places of 64 bits, for which LLVM checks both.

On CUDA, TVM 0.27 makes ``cp.async`` of copies that have 0 outside of an array for floats only, and its code for vectors
of more than four equal integers of 8 bits does not compile.
"""

import functools
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx

CPU = "cpu"
"""Key of the targets whose kernels are modules of their own. A GPU's stay in one module, because NVRTC compiles
one program after the other, whatever number of threads calls it.
"""

MOST_THREADS = 16
"""Number of threads that generate code at most; each needs memory for LLVM."""

C_CODE = "passsearch.c_code"
"""Attribute of a function of loops: the code of the function in C or C++ that it calls (``ReplaceKernel``)."""

C_LANGUAGE = "passsearch.c_language"
"""Attribute beside it: ``c`` or ``c++``."""

ASYNC_COPIES = "tirx.use_async_copy"
"""Option of TVM's builds: copies that a schedule marks for it become ``cp.async`` of CUDA."""

IF_THEN_ELSE = "prim.if_then_else"
NARROW_INTEGERS, WORD_BYTES = ("int8", "uint8"), 4

_OPENMP = re.compile(r'#\s*pragma\s+omp|_Pragma\(\s*"omp|omp\.h')

_Made = TypeVar("_Made")


@functools.cache
def replace_narrowing() -> None:
    """Let TVM's builds keep places of 64 bits, from now on, where LLVM makes wrong vectors of those of 32 bits."""
    narrow = tirx.transform.NarrowDataType

    def narrow_others(bits: int) -> tvm.transform.Pass:
        @tvm.transform.module_pass(opt_level=0, name="NarrowDataType")  # type: ignore[untyped-decorator]
        def narrowed(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
            wide = {name: each for name, each in module.functions_items() if _has_remainders(each)}
            module = narrow(bits)(module)
            module.update(narrow(64)(tvm.IRModule(wide)))
            return module

        return narrowed

    # The list of TVM's passes has no place for others; it takes this one by name.
    tirx.transform.NarrowDataType = narrow_others


@functools.cache
def replace_copies() -> None:
    """Let TVM's builds, from now on, copy integers into shared memory as they copy floats."""
    inject = s_tir.transform.InjectPTXAsyncCopy

    def inject_all() -> tvm.transform.Pass:
        @tvm.transform.module_pass(opt_level=0, name="InjectPTXAsyncCopy")  # type: ignore[untyped-decorator]
        def injected(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
            module = inject()(_mapped(module, tvm.ir.Call, _with_float_zero))
            return _mapped(_mapped(module, tvm.ir.Call, _with_integer_zero), tirx.Broadcast, _in_words)

        return injected

    s_tir.transform.InjectPTXAsyncCopy = inject_all


def _mapped(module: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """Return a module with other nodes of a kind in the bodies of its functions."""
    changed = {
        name: each.with_body(tvm_ffi.structural_map(each.body, (kind, replace)))
        for name, each in module.functions_items()
        if isinstance(each, tirx.PrimFunc)
    }
    module = module.clone()
    module.update(tvm.IRModule(changed))
    return module


def _with_float_zero(call: Any) -> Any:
    """Return a choice between a value and an integer 0 as one with 0.0, which TVM's pass looks for."""
    return _with_zero(call, tirx.IntImm, lambda _: tirx.FloatImm("float32", 0.0))


def _with_integer_zero(call: Any) -> Any:
    """Return what ``_with_float_zero`` was called with."""
    return _with_zero(call, tirx.FloatImm, lambda dtype: tirx.const(0, dtype))


def _with_zero(call: Any, old: Any, new: Callable[[str], Any]) -> Any:
    if getattr(call.op, "name", "") != IF_THEN_ELSE:
        return call
    dtype, _, lanes = str(call.ty).partition("x")
    condition, value, other = call.args
    number = other.value if isinstance(other, tirx.Broadcast) else other
    if dtype not in NARROW_INTEGERS or not isinstance(number, old) or number.value != 0:
        return call
    zero = tirx.Broadcast(new(dtype), int(lanes)) if lanes else new(dtype)
    return tvm.ir.Call(call.op, [condition, value, zero], ret_ty=call.ty)


def _in_words(vector: Any) -> Any:
    """Return a vector of more than four equal integers of 8 bits as words."""
    dtype, lanes = str(vector.value.ty), int(vector.lanes)
    is_narrow = dtype in NARROW_INTEGERS and isinstance(vector.value, tirx.IntImm)
    if not is_narrow or lanes <= WORD_BYTES or lanes % WORD_BYTES:
        return vector
    word = int.from_bytes(bytes([vector.value.value % 256]) * WORD_BYTES, "little", signed=True)
    words = tirx.Broadcast(tirx.IntImm("int32", word), lanes // WORD_BYTES)
    return tirx.reinterpret(f"{dtype}x{lanes}", words)


def build_config(config: Mapping[str, Any], target: tvm.target.Target) -> dict[str, Any]:
    """Return the options of a build's context: on CUDA, copies that a schedule marks run beside what is computed."""
    return {ASYNC_COPIES: True, **config} if target.kind.name == "cuda" else dict(config)


def _has_remainders(function: Any) -> bool:
    """Return True for a function of a CPU that computes the remainder of a division by a power of two."""
    target = function.attrs.get("target")
    if target is None or CPU not in target.keys:
        return False
    found: list[Any] = []

    def visit(remainder: Any) -> None:
        divisor = remainder.b
        if isinstance(divisor, tirx.IntImm) and divisor.value > 1 and divisor.value & (divisor.value - 1) == 0:
            found.append(remainder)

    for kind in (tirx.FloorMod, tirx.Mod):
        tvm_ffi.structural_walk(function.body, (kind, visit))
    return bool(found)


def write_library(module: tvm.IRModule, target: tvm.target.Target, path: Path, *, threads: int, **linking: Any) -> None:
    """Generate the code of a lowered network and link it with its constants into one library.

    The caller enters target and context, whose options are those of ``build_config``.

    Args:
        module: The network after ``lowering.lower``.
        target: What it is compiled for.
        path: The library to write.
        threads: Number of threads that generate code; the library is the same for every number.
        linking: Arguments of TVM's ``export_library``.

    Raises:
        OSError: The system starts no more threads.
    """
    kernels = [name for name, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]
    # TVM's own build makes the library of the network itself, for which it wants at least one kernel.
    apart = kernels[1:] if CPU in target.keys and are_independent(module, kernels) else []
    network = tvm.IRModule(
        {name: each for name, each in module.functions_items() if name not in apart}, attrs=module.attrs
    )
    with TemporaryDirectory() as scratch:
        # By number, because the name of a kernel may be longer than that of a file.
        objects = [str(Path(scratch) / f"kernel{place}.o") for place in range(len(apart))]

        def write(place: int, library: Any) -> None:
            library.write_to_file(objects[place])

        generate_code([{name: module[name]} for name in apart], target, threads=threads, use=write)
        executable = relax.build(network, target, relax_pipeline=None)
        compiled, options = compile_c(
            [module[name] for name in kernels], target, Path(scratch), cc=linking.get("cc") or "cc"
        )
        linking |= {"options": options} if options else {}
        executable.export_library(str(path), addons=[*objects, *compiled], **linking)


def compile_c(
    kernels: Iterable[tirx.PrimFunc], target: tvm.target.Target, folder: Path, *, cc: str
) -> tuple[list[str], list[str]]:
    """Compile what kernels call in C or C++; return the files of the objects, and the options that link them.

    Raises:
        RuntimeError: The compiler refuses one of them.
    """
    objects, options = [], []
    cpu = str(target.attrs["mcpu"]) if "mcpu" in target.attrs else ""
    for place, attributes in enumerate(each.attrs for each in kernels if C_CODE in (each.attrs or {})):
        code, is_cpp = str(attributes[C_CODE]), str(attributes[C_LANGUAGE]) == "c++"
        file, made = folder / f"foreign{place}.{'cc' if is_cpp else 'c'}", str(folder / f"foreign{place}.o")
        file.write_text(code)
        openmp = ["-fopenmp"] if _OPENMP.search(code) else []
        # Hidden, so that two libraries in one process may have functions of one name.
        words = [cc, "-x", "c++" if is_cpp else "c", "-O3", "-fPIC", "-fvisibility=hidden", *openmp, "-c", "-o", made]
        outcome = subprocess.run([*words, f"-march={cpu}", str(file)], capture_output=True, text=True, check=False)
        if outcome.returncode or not cpu:  # the name of the processor may be one of LLVM's only
            outcome = subprocess.run([*words, str(file)], capture_output=True, text=True, check=False)
        if outcome.returncode:
            lines = [line for line in outcome.stderr.splitlines() if "error" in line] or outcome.stderr.splitlines()
            raise RuntimeError((lines[0] if lines else "the C compiler fails").replace(f"{file}:", "line "))
        objects.append(made)
        options += [each for each in [*openmp, *(["-lstdc++"] if is_cpp else [])] if each not in options]
    return objects, options


def are_independent(module: tvm.IRModule, kernels: Iterable[Any]) -> bool:
    """Return False if kernels may need each other, belong to another target, or have a prefix to their names."""
    if "system_lib_prefix" in (module.attrs or {}):
        return False
    others: list[tvm.ir.GlobalVar] = []
    for name in kernels:
        if "target" in (module[name].attrs or {}):
            return False
        tvm_ffi.structural_walk(module[name].body, (tvm.ir.GlobalVar, others.append))
    return not others


def generate_code(
    modules: Iterable[Mapping[Any, tirx.PrimFunc]],
    target: tvm.target.Target,
    *,
    threads: int,
    use: Callable[[int, Any], _Made],
) -> list[_Made]:
    """Generate the code of several modules side by side, in the context of the caller.

    Args:
        modules: The functions of each module by name.
        target: What they are compiled for.
        threads: Number of threads.
        use: Called in the same thread with the place of a module and its library; LLVM generates machine code only
            when a library is written or a function is taken from it.

    Returns:
        What ``use`` returned, by place.

    Raises:
        OSError: The system starts no more threads.
    """
    context = tvm.transform.PassContext.current()

    def generate(place: int, functions: Mapping[Any, tirx.PrimFunc]) -> _Made:
        # Contexts and targets belong to a thread.
        with target, _without_instruments(context):
            return use(place, tirx.build(tvm.IRModule(dict(functions)), target=target))

    # TVM sets LLVM's command line options for the whole process while it generates code.
    is_alone = "cl-opt" in target.attrs
    with ThreadPoolExecutor(1 if is_alone else min(threads, MOST_THREADS)) as executor:
        try:
            made = executor.map(generate, count(), modules)
        except RuntimeError as error:  # the class of TVM's errors, too, which are the fault of a kernel
            raise OSError(f"No thread to generate code: {error}.") from error
        # If one fails, those that have not begun are not generated.
        return list(made)


def _without_instruments(context: tvm.transform.PassContext) -> tvm.transform.PassContext:
    """Return a context with the same options; instruments may not be called by several threads."""
    return tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=list(context.required_pass),
        disabled_pass=list(context.disabled_pass),
        config=dict(context.config),
    )
