"""Copies of functions for single calls, so that layers which share a kernel can store their weights in several ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from .constants import entries, is_call_tir

SEPARATOR = ":"
"""Stands between the name of a function and the number of one of its calls."""

_MARK = "passsearch.copy"
"""Attribute that no function keeps."""


def numbered_calls(module: Any) -> Iterator[tuple[str, int, Any]]:
    """Yield the name of the function, the number among its calls, and the call, in the order of the entry functions."""
    numbers: Counter[str] = Counter()
    for entry in entries(module):
        for block in module[entry].body.blocks:
            for binding in block.bindings:
                call = getattr(binding, "value", None)
                if isinstance(call, relax.Call) and is_call_tir(call):
                    name = call.args[0].name_hint
                    yield name, numbers[name], call
                    numbers[name] += 1


def copied(module: Any, copies: Mapping[tuple[str, int], str]) -> Any:
    """Return a module in which single calls are of copies of their functions.

    Args:
        module: The module.
        copies: Name of the copy, by the name of the function and the number of the call. Calls with one name of a
            copy share it.

    Raises:
        ValueError: There is no such call.
    """
    calls = {(name, number) for name, number, _ in numbered_calls(module)}
    if unknown := sorted(copies.keys() - calls):
        raise ValueError(f"no call {unknown[0][1]} of a function `{unknown[0][0]}`")
    functions = {variable.name_hint: function for variable, function in module.functions_items()}
    builder = relax.BlockBuilder()
    originals = {copy: functions[name] for (name, _), copy in copies.items()}
    # The builder makes typed variables, and one for equal functions: a mark tells the copies apart.
    variables = {copy: builder.add_func(each.with_attr(_MARK, copy), copy) for copy, each in sorted(originals.items())}
    unused = {name for name, _ in copies} - {name for name, number in calls - copies.keys()}
    kept = {variable: function for variable, function in module.functions_items() if variable.name_hint not in unused}
    copied_functions = {variables[copy]: function for copy, function in originals.items()}
    result = tvm.IRModule({**kept, **copied_functions}, attrs=module.attrs, global_infos=module.global_infos)
    replace = _replacement(copies, variables)
    for entry in entries(result):
        result.update_func(entry, tvm_ffi.structural_map(result[entry], (relax.Call, replace)))
    return result


def _replacement(copies: Mapping[tuple[str, int], str], variables: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return what replaces calls; it counts them, in the order of ``numbered_calls``."""
    numbers: Counter[str] = Counter()

    def replace(call: Any) -> Any:
        if not is_call_tir(call):
            return call
        name = call.args[0].name_hint
        number = numbers[name]
        numbers[name] += 1
        copy = copies.get((name, number))
        return (
            call if copy is None else relax.Call(call.op, [variables[copy], *call.args[1:]], call.attrs, call.ty_args)
        )

    return replace
