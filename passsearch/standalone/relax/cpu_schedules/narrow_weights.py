"""The pass that stores constant weights of products in fewer bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.target.codegen import target_has_features

from .attention import is_attention
from .call_copies import SEPARATOR, copied
from .constants import constant_arguments, digest, replace_functions, tensor, values_of
from .cpu_pass import cpu_pass, unscheduled
from .factors import LEAST_GROUP, MOST_GROUP, Factor
from .narrow_loops import is_table, narrowed, narrowed_table
from .storage import EXACT, FLOAT32, GROUPED, INT8, STORAGES, Storage, exact_type

NOTES = "passsearch.weights"
"""Attribute of a function with a line for each of its large constants: their shape, their storage, and the reason where
that is not the one that was asked for."""

LEAST_NUMBERS = 1 << 14
"""Numbers from which weights are narrowed by default: 64 KiB of float32, which stay in the second cache."""

MOST_ROWS = 16
"""Rows of a product up to which weights that are 16 bits in the file stay so: of 128 rows, widening gains nothing."""

DEFAULT_GROUP = 32
"""Numbers that share a scale in ``int4`` by default, and in activations of weights without groups."""

NO_INTEGERS = "activations in float32"
"""Begin of the reason for products that are not of integers."""


def NarrowWeights(  # noqa: N802
    storage: str = FLOAT32,
    group: int | None = None,
    least: int = LEAST_NUMBERS,
    activations: str = FLOAT32,
    kernels: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Return a pass that stores constant weights narrow; the kernels widen them in registers, and sums stay float32.

    With activations in ``int8``, kernels round a group of these at a time, by its largest magnitude, and multiply
    integers. Weights that cannot be narrowed stay float32, and an attribute of their function says why.

    Args:
        storage: One of ``STORAGES``; ``float32`` changes nothing. ``exact`` for the 16-bit type that has all numbers of
            a weight, of products that have ``MOST_ROWS`` rows at most.
        group: Numbers along the sum that share a scale; 0 for one scale for each column, with ``int8`` only. ``None``
            for that with ``int8``, and for groups of 32 with ``int4``. Where it does not divide the sum, the largest
            smaller one that does takes its place, or else the smallest larger one.
        least: Numbers from which weights are narrowed.
        activations: ``int8`` for products of integers, with weights in ``int8`` and ``int4``.
        kernels: Another storage, group and activations for single functions, by the name of the function, or for single
            calls: ``matmul:2`` is the third call of ``matmul``.

    Raises:
        ValueError: There is no such storage or group, or ``kernels`` names a function or call that the module does not
            have, or another parameter.
    """
    default = _storage(storage, group, activations)

    def narrow(module: Any, _registers: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        has_integers, has_float16 = bool(target_has_features("avx2", target)), _widens_float16(target)
        module, storages = _kernel_storages(module, default, kernels or {})
        if all(each.name == FLOAT32 for each in storages.values()):
            return module
        arguments = constant_arguments(module)
        changed = {}
        for name, function in unscheduled(module):
            storage = storages[name.name_hint]
            if storage.name != FLOAT32 and not is_attention(function):
                changed[name.name_hint] = _narrow(
                    function,
                    arguments.get(name.name_hint, {}),
                    storage,
                    least=least,
                    has_integers=has_integers,
                    has_float16=has_float16,
                )
        return _replaced(module, {name: each for name, each in changed.items() if each.has_notes})

    return cpu_pass(narrow, name="NarrowWeights")


def _widens_float16(target: Any) -> bool:
    """Return whether the processor has an instruction for it, without which LLVM calls a function for each number."""
    return "x86" not in str(target.attrs.get("mtriple", "")) or bool(target_has_features("f16c", target))


def _storage(storage: Any, group: Any, activations: Any) -> Storage:
    if storage not in (names := (FLOAT32, EXACT, *STORAGES)):
        raise ValueError(f"`storage` of NarrowWeights is one of {', '.join(names)}; got {storage}")
    if group is None:
        group = DEFAULT_GROUP if storage == "int4" else 0
    if group % 8 or not 0 <= group <= MOST_GROUP or (group and group < 32):
        raise ValueError(
            f"`group` of NarrowWeights is a multiple of 8 from 32 to {MOST_GROUP}, or 0 for columns; got {group}"
        )
    if storage == "int4" and not group:
        raise ValueError(
            "`group` of NarrowWeights is not 0 for int4: one scale for a column of 16 values is too coarse"
        )
    if activations not in (FLOAT32, *((INT8,) if storage in GROUPED else ())):
        raise ValueError(
            f"`activations` of NarrowWeights is {FLOAT32}, or {INT8} for {' or '.join(GROUPED)}; "
            f"got {activations} for {storage}"
        )
    group = group if storage in GROUPED else 0
    return Storage(storage, group, (group or DEFAULT_GROUP) if activations == INT8 else 0)


def _kernel_storages(
    module: Any, default: Storage, kernels: Mapping[str, Mapping[str, Any]]
) -> tuple[Any, dict[str, Storage]]:
    """Return the module, with copies of functions whose calls differ, and the storage of every function's weights."""
    names = [name.name_hint for name, _ in module.functions_items()]
    if unknown := [name for name in kernels if SEPARATOR not in name and name not in names]:
        raise ValueError(f"no function `{unknown[0]}` to narrow the weights of")
    if wrong := [own for own in kernels.values() if not {*own} <= {"storage", "group", "activations"}]:
        raise ValueError(f"a kernel takes storage, group and activations; got {dict(wrong[0])}")
    storages = {name: storage_of(each) for name, each in kernels.items()}
    copies: dict[tuple[str, int], str] = {}
    for name in [name for name in kernels if SEPARATOR in name]:
        function, _, number = name.partition(SEPARATOR)
        if not number.isdecimal():
            raise ValueError(f"a single call is `FUNCTION{SEPARATOR}NUMBER`; got `{name}`")
        storage = storages.pop(name)
        copy = f"{function}_{storage.name}" + (f"_{storage.group}" if storage.group else "")
        copy += "_integers" if storage.activations else ""
        copies[function, int(number)], storages[copy] = copy, storage
    module = copied(module, copies) if copies else module
    names = [name.name_hint for name, _ in module.functions_items()]
    return module, {name: storages.get(name, default) for name in names}


def storage_of(arguments: Mapping[str, Any]) -> Storage:
    """Return the storage that these arguments of ``NarrowWeights`` stand for."""
    return _storage(**{"storage": FLOAT32, "group": None, "activations": FLOAT32, **arguments})


def rounded_weights(
    function: Any,
    arguments: Mapping[int, Any],
    storage: Storage,
    *,
    least: int = LEAST_NUMBERS,
    has_integers: bool = True,
) -> tuple[dict[int, Any], dict[int, int], list[str]]:
    """Return the float32 values that one call of a function would compute with, and the lines of ``NOTES``.

    Args:
        function: The function.
        arguments: Constants of the call by place.
        storage: The storage.
        least: Numbers from which weights are narrowed.
        has_integers: True if the processor has products of 8-bit integers.

    Returns:
        Values by place, for the weights that would be narrow; the size of the groups in which the other factor would be
        rounded, by the place of the weights; and the lines.
    """
    own = {place: [constant] for place, constant in arguments.items()}
    narrow = _narrow(function, own, storage, least=least, has_integers=has_integers)
    values = {
        place: layout.storage.rounded(values_of(arguments[place].value), layout.summed, layout.dimension)
        for place, layout in narrow.layouts.items()
    }
    groups = {place: layout.storage.activations for place, layout in narrow.layouts.items()}
    return values, groups, list(map(str, narrow.function.attrs[NOTES])) if narrow.has_notes else []


@dataclass(frozen=True)
class _Layout:
    """How the constants at one place of a function's arguments are stored.

    Attributes:
        storage: The storage.
        summed: Dimensions that share a scale.
        dimension: The one of these that is divided into groups.
        reason: Why the storage is not the one that was asked for; empty if it is.
    """

    storage: Storage
    summed: tuple[int, ...] = ()
    dimension: int = 0
    reason: str = ""

    @property
    def text(self) -> str:
        """The storage and the reason."""
        return self.storage.text + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class _Narrowed:
    """A function that reads narrow weights.

    Attributes:
        function: The function.
        layouts: Layout of the weights that are narrow, by their place among the arguments of the original function.
    """

    function: Any
    layouts: Mapping[int, _Layout]

    @property
    def has_notes(self) -> bool:
        """False for a function without weights."""
        return bool(self.function.attrs) and NOTES in self.function.attrs


def _narrow(
    function: Any,
    arguments: Mapping[int, Sequence[Any]],
    storage: Storage,
    *,
    least: int,
    has_integers: bool = True,
    has_float16: bool = True,
) -> _Narrowed:
    """Return a function with all of its large constant weights in a storage.

    Args:
        function: The function.
        arguments: The constants of all its calls, by place.
        storage: The storage.
        least: Numbers from which weights are narrowed.
        has_integers: True if the processor has products of 8-bit integers.
        has_float16: True if it widens float16.
    """
    layouts: dict[int, _Layout] = {}
    notes: list[str] = []
    result = function
    # From the last one, as a parameter of scales moves those behind it.
    for place in sorted(arguments, reverse=True):
        shape = list(map(int, arguments[place][0].value.shape))
        factor = Factor.find(result, place)
        is_bias = isinstance(factor, str) and np.prod(shape) < least
        if is_bias or str(function.params[place].dtype) != FLOAT32:
            continue
        is_small = np.prod(shape) < least
        layout = _kept(f"they are fewer than {least} numbers") if is_small else _refused(arguments[place], storage)
        if not all(isinstance(size, tirx.IntImm) for size in function.params[place].shape):
            layout = _kept("the kernel takes weights of any size")
        own = storage
        if layout is None and storage.name == EXACT:
            own, layout = _exact_storage(arguments[place], factor, has_float16=has_float16)
        if layout is None and isinstance(factor, Factor):
            layout = _factor_layout(factor, own, has_integers=has_integers)
            result = narrowed(result, factor, layout.storage) if layout.storage.name != FLOAT32 else result
        elif layout is None and is_table(result, place):
            layout = _table_layout(len(shape), own)
            result = narrowed_table(result, place, layout.storage)
        layout = layout or _kept(str(factor))
        if layout.storage.name != FLOAT32:
            layouts[place] = layout
        notes.append(f"{'x'.join(map(str, shape))} in {layout.text}")
    return _Narrowed(result.with_attr(NOTES, notes[::-1]) if notes else result, layouts)


def _kept(reason: str) -> _Layout:
    """Return the layout of weights that stay float32."""
    return _Layout(Storage(FLOAT32), reason=reason)


def _refused(constants: Sequence[Any], storage: Storage) -> _Layout | None:
    """Return the layout of weights with numbers that a storage does not have; ``None`` if it has all of them."""
    reasons = [reason for each in constants if (reason := storage.refusal(values_of(each.value)))]
    return _kept(reasons[0]) if reasons else None


def _exact_storage(
    constants: Sequence[Any], factor: Factor | str, *, has_float16: bool
) -> tuple[Storage, _Layout | None]:
    """Return the 16-bit storage that has all numbers of some constants, or the layout of those that stay float32."""
    if isinstance(factor, Factor) and (factor.rows is None or factor.rows > MOST_ROWS):
        return Storage(FLOAT32), _kept(f"products of more than {MOST_ROWS} rows gain nothing")
    name = exact_type([values_of(each.value) for each in constants], has_float16=has_float16)
    if name == FLOAT32:
        return Storage(FLOAT32), _kept("no 16-bit type has all of their numbers")
    return Storage(name), None


def _factor_layout(factor: Factor, storage: Storage, *, has_integers: bool) -> _Layout:
    refusal = _no_integers(factor, storage, has_integers=has_integers) if storage.activations else ""
    if refusal:
        storage = replace(storage, activations=0)
    if storage.step == 1:
        return _Layout(storage, factor.summed, reason=refusal)
    group = factor.group(storage)
    if not group or factor.steps is None:
        return _kept(f"no axis of the sum divides into groups of {LEAST_GROUP} to {MOST_GROUP}")
    reasons = [refusal] if refusal else []
    if group != storage.step:
        reasons.append(f"groups of {storage.step} do not divide the sum")
    own = Storage(storage.name, group if storage.group else 0, group if storage.activations else 0)
    return _Layout(own, factor.summed, factor.steps[0], "; ".join(reasons))


def _no_integers(factor: Factor, storage: Storage, *, has_integers: bool) -> str:
    """Return why a product is not of integers; empty if it is."""
    if not has_integers:
        return f"{NO_INTEGERS}: the processor has no AVX2"
    if not factor.has_contiguous_data:
        return f"{NO_INTEGERS}: their size or order does not fit"
    is_divided = storage.group or factor.group(storage)
    return "" if is_divided else f"{NO_INTEGERS}: no groups of {LEAST_GROUP} to {MOST_GROUP} divide the sum"


def _table_layout(rank: int, storage: Storage) -> _Layout:
    """Return the layout of a table, with a scale for each row where the storage has scales."""
    if not storage.group:
        return _Layout(replace(storage, activations=0), (rank - 1,))
    return _Layout(Storage("int8"), (rank - 1,), reason="a table has one scale for each row")


def _replaced(module: Any, changed: Mapping[str, _Narrowed]) -> Any:
    """Return the module with these functions in place of those of the same names, and with their constants narrow."""
    stored: dict[Any, list[Any]] = {}  # calls with equal weights share them

    def arguments_of(name: str, place: int, argument: Any) -> list[Any]:
        layout = changed[name].layouts.get(place)
        if layout is None:
            return [argument]
        key = (digest(values_of(argument.value)), str(argument.ty), layout)
        if key not in stored:
            arrays = layout.storage.arrays(values_of(argument.value), layout.summed, layout.dimension)
            stored[key] = [relax.const(tensor(array)) for array in arrays]
        return stored[key]

    return replace_functions(module, {name: each.function for name, each in changed.items()}, arguments_of)
