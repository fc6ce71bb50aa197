"""The pass that schedules all functions of a module for CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func

from .accesses import Packing
from .attention import is_attention, schedule_attention
from .constants import constant_arguments, digest, entries, is_call_tir, tensor, values_of
from .cpu_pass import SCHEDULED, cpu_pass, unscheduled
from .limits import with_finite_limits
from .open_sizes import OpenScheduler
from .operator_loops import write_loops
from .places import find_places
from .registers import Registers
from .scheduler import Scheduler
from .small_loops import run_small_loops_alone
from .tiling import Settings

PACKED = "_packed"
"""End of the name of a function that reads weights in another layout."""


def ScheduleCPU(  # noqa: N802
    rows: int | None = None,
    vectors: int | None = None,
    keep_weights: bool | None = None,
    prefetch: int | None = None,
    pack: bool = True,
    kernels: Mapping[str, Mapping[str, int | bool | None]] | None = None,
) -> Any:
    """Return a pass that schedules every function without a schedule; for other targets than CPUs it changes nothing.

    Args:
        rows: Most vectors of sums in one tile, which must fit into registers; ``None`` to leave a few of these free.
        vectors: Most vectors in one row of a tile; ``None`` for no limit of its own, but for one where a product
            prefetches that has weights for each of a batch, or by default few tiles on the same weights.
        keep_weights: Compute all sums of one block of weights before the next block, so that it stays in the cache, or,
            if false, all sums of one line of data before the next line; for a product of matrices, of one tile's rows.
            ``None`` to keep weights that are larger than the data, but none below 1 MiB whose tiles overlap.
        prefetch: Most steps of a sum between two prefetches of the next weights, for products that keep weights of
            1 MiB or more; 0 for no prefetches. ``None`` to decide by the number of tiles that use the same weights.
        pack: Change the layout of weights, so that the values of one vector are contiguous.
        kernels: Other values of the first four arguments for single functions, by the name of the function.

    Raises:
        ValueError: A value is too small, or ``kernels`` names a function that the module does not have, or another
            parameter.
    """
    default = Settings(rows, vectors, keep_weights, prefetch)

    def schedule(module: Any, registers: Registers) -> Any:
        module = write_loops(module)
        settings = _kernel_settings(module, default, kernels or {}, rows=registers.most_sums)
        packed: dict[str, _PackedFunction] = {}
        constants = {name: frozenset(found) for name, found in constant_arguments(module).items()} if pack else {}
        for name, function in unscheduled(module):
            places = constants.get(name.name_hint, frozenset())
            own = settings[name.name_hint]
            result, packings = _scheduled(function, registers=registers, settings=own, constants=places)
            if packings:
                packed[name.name_hint] = _PackedFunction(result, packings)
            else:
                module.update_func(name, result)
        return _replace_packed(module, packed) if packed else module

    return cpu_pass(schedule, name="ScheduleCPU")


def _kernel_settings(
    module: Any, default: Settings, kernels: Mapping[str, Mapping[str, int | bool | None]], *, rows: int
) -> dict[str, Settings]:
    """Return the settings of every function, with ``rows`` where none are set."""
    names = [name.name_hint for name, _ in module.functions_items()]
    unknown = [name for name in kernels if name not in names]
    if unknown:
        raise ValueError(f"no function `{unknown[0]}` to schedule")
    try:
        settings = {name: Settings(**{**asdict(default), **kernels.get(name, {})}) for name in names}
    except TypeError as error:
        raise ValueError(f"a kernel takes rows, vectors, keep_weights and prefetch; got {dict(kernels)}") from error
    return {name: replace(setting, rows=setting.rows or rows) for name, setting in settings.items()}


def _scheduled(
    function: Any, *, registers: Registers, settings: Settings, constants: frozenset[int]
) -> tuple[Any, Mapping[int, Packing]]:
    """Return the function with its schedule, and the new layouts of its arguments by their place.

    A function with loops of an unknown kind stays as it is, and so does one that TVM refuses to schedule.
    """
    try:
        return _schedule(function, registers=registers, settings=settings, constants=constants)
    except s_tir.schedule.ScheduleError:
        return function, {}


def _schedule(
    function: Any, *, registers: Registers, settings: Settings, constants: frozenset[int]
) -> tuple[Any, Mapping[int, Packing]]:
    if is_attention(function):
        return schedule_attention(function, registers), {}
    if (places := find_places(function)) is not None:
        return places.with_attr(SCHEDULED, True), {}
    sizes = [size for each in function.params for size in getattr(each, "shape", ())]
    if any(isinstance(size, tirx.IntImm) and int(size) == 0 for size in sizes):
        return function, {}  # loops of no iteration cannot be split
    function = run_small_loops_alone(function)
    finite, restored = with_finite_limits(function)
    schedule = s_tir.Schedule(finite)
    blocks = normalize_prim_func(schedule)
    if blocks is None:
        return function, {}
    scheduler: Scheduler
    if all(isinstance(size, int) for block in blocks for size in block.dom()):
        scheduler = Scheduler(schedule, blocks, registers=registers, settings=settings, constants=constants)
    else:
        scheduler = OpenScheduler(schedule, blocks, registers=registers)
    result = restored(scheduler.run())
    return result.with_attr(SCHEDULED, True), scheduler.packings


@dataclass(frozen=True)
class _PackedFunction:
    """A function that reads some arguments in another layout, with these layouts by argument place."""

    function: Any
    packings: Mapping[int, Packing]


def _replace_packed(module: Any, packed: dict[str, _PackedFunction]) -> Any:
    """Return the module with these functions in place of the original ones, and with their constants in the layouts."""
    builder = relax.BlockBuilder(module)
    # New names, because TVM stores a function's type with the variable that names it.
    names = {name: builder.add_func(entry.function, f"{name}{PACKED}") for name, entry in packed.items()}

    # Equal constants, such as those of the steps of a recurrent network, share their packed form. Equal by content: a
    # module that was stored and read again has one array where it had two equal ones, and must give the same module.
    constants: dict[tuple[bytes, str, Packing], Any] = {}

    def pack(constant: Any, packing: Packing | None) -> Any:
        if packing is None:
            return constant
        values = values_of(constant.value)
        key = (digest(values), str(constant.ty), packing)
        if key not in constants:
            constants[key] = relax.const(tensor(packing.array(values)))
        return constants[key]

    def replace_call(call: Any) -> Any:
        name = call.args[0].name_hint if is_call_tir(call) else ""
        if name not in packed:
            return call
        packings = packed[name].packings
        arguments = [pack(argument, packings.get(place)) for place, argument in enumerate(call.args[1].fields)]
        return relax.Call(call.op, [names[name], relax.Tuple(arguments), *call.args[2:]], call.attrs, call.ty_args)

    module = builder.get()
    for entry in entries(module):
        module.update_func(entry, tvm_ffi.structural_map(module[entry], (relax.Call, replace_call)))
    return relax.transform.DeadCodeElimination()(module)
