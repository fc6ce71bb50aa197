"""Names of functions, and modules of some of them as entry functions: those that a caller runs."""

from collections.abc import Iterable, Iterator

import tvm
import tvm_ffi
from tvm import relax

from passsearch.core import MAIN
from passsearch.errors import UserError


def function_names(module: tvm.IRModule) -> list[str]:
    """Return the names of ``main`` and of the functions of operators that no other function calls, by name."""
    functions = {variable.name_hint: function for variable, function in module.functions_items()}
    called = {callee.name_hint for function in functions.values() for callee in callees(function)}
    called.discard(MAIN)
    return sorted(name for name, each in functions.items() if isinstance(each, relax.Function) and name not in called)


def _is_public(function: relax.Function) -> bool:
    return function.attrs is not None and "global_symbol" in function.attrs


def select(modules: Iterable[tuple[str, tvm.IRModule, str]]) -> tvm.IRModule:
    """Return a module of some functions under other names, with all that they call and nothing else.

    Args:
        modules: The new name, the module and the present name of each function.

    Raises:
        UserError: A function calls itself.
    """
    builder = relax.BlockBuilder()
    for entry, module, name in modules:
        _Copier(builder, module, entry=entry, name=name).copy(module.get_global_var(name))
    return builder.get()


class _Copier:
    """Copies one function of a module, and what it calls, into another module."""

    def __init__(self, builder: relax.BlockBuilder, module: tvm.IRModule, *, entry: str, name: str) -> None:
        self._builder, self._module, self._entry, self._name = builder, module, entry, name
        self._copies: dict[str, tvm.ir.GlobalVar] = {}
        self._open: list[str] = []

    def copy(self, variable: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        """Return the variable of the copy."""
        name = variable.name_hint
        if name in self._open:
            raise UserError(f"`{name}` calls itself, which a module of one entry function cannot have")
        if name not in self._copies:
            self._open.append(name)
            self._copies[name] = self._add(name, self._module[variable])
            self._open.pop()
        return self._copies[name]

    def _add(self, name: str, function: tvm.ir.BaseFunc) -> tvm.ir.GlobalVar:
        copies = {callee.name_hint: self.copy(callee) for callee in callees(function)}
        if copies:
            function = tvm_ffi.structural_map(function, (tvm.ir.GlobalVar, lambda old: copies[old.name_hint]))
        is_entry = name == self._name
        if is_entry:
            function = function.with_attr("global_symbol", self._entry)
        elif isinstance(function, relax.Function) and _is_public(function):
            # Public functions are what a caller runs, and passes keep them even if nothing calls them.
            function = function.without_attr("global_symbol")
        # Functions that are equal are added once; another one of the same name gets a new name.
        return self._builder.add_func(function, self._entry if is_entry else name)


def callees(function: tvm.ir.BaseFunc) -> Iterator[tvm.ir.GlobalVar]:
    """Yield the variables of the functions that a function calls, each once."""
    found: dict[str, tvm.ir.GlobalVar] = {}

    def visit(variable: tvm.ir.GlobalVar) -> None:
        found.setdefault(variable.name_hint, variable)

    tvm_ffi.structural_walk(function, (tvm.ir.GlobalVar, visit))
    yield from found.values()
