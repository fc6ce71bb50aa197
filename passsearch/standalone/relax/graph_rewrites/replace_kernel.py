"""Another function in place of one kernel of a network: a function of loops (TIR), or one in C behind it.

The code in C is an attribute of the function that calls it, and the build compiles it
(``deployment/code_generation.py``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx

C_CODE = "passsearch.c_code"
"""Attribute of a function of loops: the code of the function in C that it calls."""

C_LANGUAGE = "passsearch.c_language"
"""Attribute beside it: ``c`` or ``c++``, by the suffix of the file."""

C_NAME = "passsearch.c_name"
"""Attribute beside it: the name of that function."""

C_TYPES = {
    "float32": ("float",),
    "float64": ("double",),
    "float16": ("_Float16", "uint16_t"),
    "bfloat16": ("__bf16", "uint16_t"),
    "bool": ("bool", "_Bool", "uint8_t", "int8_t"),
    "int8": ("int8_t", "signed char"),
    "uint8": ("uint8_t", "unsigned char"),
    "int16": ("int16_t", "short"),
    "uint16": ("uint16_t", "unsigned short"),
    "int32": ("int32_t", "int"),
    "uint32": ("uint32_t", "unsigned", "unsigned int"),
    "int64": ("int64_t", "long", "long long"),
    "uint64": ("uint64_t", "unsigned long", "size_t"),
}
"""Types of elements in C, of which the first is proposed."""

_LEFT_OUT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
"""Comments and directives of the preprocessor."""
_DEFINITION = re.compile(r"(?P<before>[^;{}]*)\bvoid\s+(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{")
_POINTER = re.compile(r"(?P<type>[\w ]+?)\s*\*\s*\w*")
_QUALIFIER = re.compile(r"\b(?:const|restrict|__restrict__|__restrict|volatile)\b")


def ReplaceKernel(kernel: str, file: str, sha256: str = "") -> Any:  # noqa: N802
    """Return a pass that puts another function in the place of a kernel.

    Args:
        kernel: Name of the kernel, after the passes that schedule it.
        file: A Python file with one function of TVMScript, TVM's JSON of one function, or code in C or C++ with one
            ``void`` function of pointers in the order of the kernel's parameters.
        sha256: Digest of the file, or its first digits.

    Raises:
        ValueError: The file has another digest or no such function, or its function another signature.
    """

    def replace(module: Any, _context: Any) -> Any:
        content = Path(file).read_bytes()
        if not hashlib.sha256(content).hexdigest().startswith(sha256):
            raise ValueError(f"`{Path(file).name}` is not the file that the pass was made for")
        name = find_kernel(module, kernel)
        result = module.clone()
        function = replacement(module[name], Path(file), name.name_hint)
        _refuse_second(module, name, function)
        result.update_func(name, function)
        return result

    return tvm.transform.module_pass(replace, opt_level=0, name="ReplaceKernel")


def _refuse_second(module: Any, name: Any, function: Any) -> None:
    """Refuse a function in C that has the name of another kernel's, with which it could not be linked."""
    own = (function.attrs or {}).get(C_NAME)
    for other in kernels_of(module):
        attributes = module[other].attrs or {}
        if own and not other.same_as(name) and attributes.get(C_NAME) == own:
            raise ValueError(f"`{other.name_hint}` has a function `{own}` in C already; give this one another name")


def find_kernel(module: Any, kernel: str) -> Any:
    """Return the variable that names a kernel.

    Raises:
        ValueError: There is no such kernel; the message has all names.
    """
    names = {each.name_hint: each for each in kernels_of(module)}
    if kernel not in names:
        raise ValueError(f"there is no kernel `{kernel}`; the kernels are {', '.join(sorted(names)) or 'none'}")
    return names[kernel]


def kernels_of(module: Any) -> list[Any]:
    """Return the variables that name the functions of loops."""
    return [name for name, function in module.functions_items() if isinstance(function, tirx.PrimFunc)]


def replacement(present: Any, file: Path, kernel: str) -> Any:
    """Return the function of a file, which has the parameters of the present one."""
    if file.suffix in (".c", ".cc", ".cpp"):
        return _calling(present, file.read_text(), file.name, kernel)
    function = _function_of(file)
    own, others = signature(present), signature(function)
    if own != others:
        raise ValueError(f"`{file.name}` takes {_words(others)}, and the kernel takes {_words(own)}")
    # The name of its symbol, by which the network calls it. No later pass may fuse or schedule it.
    attributes = {key: present.attrs[key] for key in ("global_symbol", "op_pattern") if key in (present.attrs or {})}
    return function.with_attrs({**attributes, "tirx.noalias": True, "tirx.is_scheduled": True})


def signature(function: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Return element type and shape of every parameter of a function of loops."""
    return [(str(each.dtype), tuple(map(_size, each.shape))) for each in function.params]


def prototype(function: Any, name: str) -> str:
    """Return how a function in C begins that has the parameters of a function of loops."""
    types = [C_TYPES.get(str(each.dtype), ("void",))[0] for each in function.params]
    sizes = [" x ".join(str(_size(size)) for size in each.shape) or "1" for each in function.params]
    written = zip(types, function.params, sizes, strict=True)
    return f"void {name}(" + ", ".join(f"{kind} *{_c_name(each)} /* {size} */" for kind, each, size in written) + ")"


def _c_name(parameter: Any) -> str:
    return re.sub(r"\W", "_", str(parameter.name))


def _size(size: Any) -> Any:
    return int(size) if isinstance(size, tirx.IntImm) else str(size)


def _words(parameters: Sequence[tuple[str, tuple[Any, ...]]]) -> str:
    return ", ".join(f"{dtype}[{', '.join(map(str, shape))}]" for dtype, shape in parameters) or "nothing"


def _function_of(file: Path) -> Any:
    """Return the one function of loops that a file in Python or JSON has."""
    if file.suffix == ".json":
        loaded = tvm.ir.load_json(file.read_text())
        found = [loaded] if isinstance(loaded, tirx.PrimFunc) else []
        found = [loaded[name] for name in kernels_of(loaded)] if isinstance(loaded, tvm.IRModule) else found
    elif file.suffix == ".py":
        # TVMScript reads the source of what it decorates, so it needs a module with a file.
        spec = importlib.util.spec_from_file_location(f"kernel_{file.stem}", file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = [each for each in vars(module).values() if isinstance(each, tirx.PrimFunc)]
    else:
        raise ValueError(f"`{file.name}` is no kernel; give a file .py, .json, .c, .cc or .cpp")
    if len(found) != 1:
        raise ValueError(f"`{file.name}` has {len(found)} functions of TIR; it must have one")
    return found[0]


def _calling(present: Any, code: str, file: str, kernel: str) -> Any:
    """Return a function of loops with the parameters of the present one that calls the function in C."""
    name, pointers = _pointers(code, file, kernel)
    own = [str(each.dtype) for each in present.params]
    if len(pointers) != len(own):
        raise ValueError(f"`{name}` of `{file}` takes {len(pointers)} pointers, and the kernel has {len(own)} tensors")
    for place, (pointer, dtype) in enumerate(zip(pointers, own, strict=True), start=1):
        if pointer not in C_TYPES.get(dtype, ("void",)):
            raise ValueError(f"parameter {place} of `{name}` points to {pointer}, and that tensor is {dtype}")
    call = tirx.call_extern("int32", name, *(each.data for each in present.params))
    language = "c" if file.endswith(".c") else "c++"
    attributes = {C_CODE: code, C_LANGUAGE: language, C_NAME: name, "tirx.noalias": True, "tirx.is_scheduled": True}
    return present.with_body(tirx.Evaluate(call)).with_attrs(attributes)


def _pointers(code: str, file: str, kernel: str) -> tuple[str, list[str]]:
    """Return the name of the function in C that is the kernel, and what its parameters point to.

    Of several functions that others may call, it is the one with the kernel's name.
    """
    plain = _LEFT_OUT.sub(" ", code)
    found = [each for each in _DEFINITION.finditer(plain) if not re.search(r"\bstatic\b", each["before"])]
    names = ", ".join(each["name"] for each in found)
    if len(found) > 1:
        found = [each for each in found if each["name"] in (kernel, kernel.removesuffix("_packed"))]
    if len(found) != 1:
        raise ValueError(
            f"`{file}` has these functions `void NAME(…)` that are not static: {names or 'none'}; it must have one, or "
            "one with the kernel's name"
        )
    if not file.endswith(".c") and not re.search(r'extern\s+"C"', code):
        raise ValueError(f'`{found[0]["name"]}` of `{file}` needs `extern "C"`')
    texts = [" ".join(_QUALIFIER.sub(" ", each).split()) for each in found[0]["parameters"].split(",")]
    pointers = [_POINTER.fullmatch(text) for text in texts]
    wrong = next((text for text, pointer in zip(texts, pointers, strict=True) if pointer is None), None)
    if wrong is not None:
        raise ValueError(f"`{wrong or 'void'}` of `{file}` is no plain pointer, and all parameters must be pointers")
    return found[0]["name"], [pointer["type"].strip() for pointer in pointers if pointer]
