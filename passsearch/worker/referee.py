"""Checks of a foreign kernel beside the present one. Each is a request of its own, because a kernel may crash."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.dialects.bits import bits_of
from passsearch.dialects.contract import Array, Bridge, CompileError, Module
from passsearch.dialects.foreign_kernel import KernelAccess, KernelCall, KernelDescription, KernelParameter
from passsearch.worker.referee_buffers import Guard, GuardedArray
from passsearch.worker.referee_inputs import NASTY, SEEDS, USUAL, make_inputs
from passsearch.worker.referee_values import difference

Request: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = dict[str, Any]

DESCRIPTION, CONSTANTS = "kernel.json", "constants.npz"
PRESENT, WIDE, FOREIGN = "present.so", "wide.so", "foreign.so"
"""Files in the folder of a trial."""

FILLS = (0xA5, 0x5A, 0xFF)
"""Bytes of memory that nobody has written; the last ones are NaN."""

MOST_CALLS, MOST_CALLS_S = 300, 1.0
"""Number of calls in a row after which the first answer must come again, and seconds that they may take."""

CHANGES, MOST_CHANGES_S = 24, 30.0
"""Random places of every input that are changed one by one, and seconds that this may take."""

LEAST_PAIRS, MOST_PAIRS, PAIRS_S = 5, 40, 1.0
"""Pairs of calls that show whether an input that comes again is answered faster, and seconds after which they end."""

MOST_GAIN, LEAST_GAIN_S = 2.0, 2e-5
"""Times, and seconds, by which an input that comes again may be answered faster than a new one."""


def judge(access: KernelAccess, bridge: Bridge, module: Callable[[], Module], request: Request) -> Answer:
    """Serve the request ``referee``, whose ``action`` is a name of ``_ACTIONS`` or ``_CHECKS``."""
    if request["action"] in _ACTIONS:
        return _ACTIONS[request["action"]](access, module(), request)
    return {"problems": list(_CHECKS[request["action"]](_Trial(access, bridge, Path(request["folder"])), request))}


def _describe(access: KernelAccess, module: Module, request: Request) -> Answer:
    return access.describe(module, request["kernel"]).to_json()


def _build_present(access: KernelAccess, module: Module, request: Request) -> Answer:
    """Write what the checks need of the present kernel; answers whether it can compute with 64 bits."""
    folder, description = Path(request["folder"]), access.describe(module, request["kernel"])
    folder.mkdir(exist_ok=True)
    (folder / DESCRIPTION).write_text(json.dumps(description.to_json()))
    constants = access.constants(module, description.name)
    arrays: dict[str, Any] = {str(place): array for place, array in constants.items()}
    np.savez(folder / CONSTANTS, **arrays)
    access.build(module, description.name, folder / PRESENT)
    (folder / WIDE).unlink(missing_ok=True)
    try:
        access.build(module, description.name, folder / WIDE, wide=True)
    except CompileError as error:
        return {"wide": False, "reason": str(error)}
    return {"wide": True, "reason": ""}


def _build_foreign(access: KernelAccess, module: Module, request: Request) -> Answer:
    access.build(module, request["kernel"], Path(request["folder"]) / FOREIGN)
    return {}


class _Trial:
    """The libraries and parameters of one trial."""

    def __init__(self, access: KernelAccess, bridge: Bridge, folder: Path) -> None:
        self.bridge, self._access, self._folder = bridge, access, folder
        description = KernelDescription.from_json(json.loads((folder / DESCRIPTION).read_text()))
        self.parameters = description.parameters
        self.inputs = {place: each for place, each in enumerate(self.parameters) if not each.is_output}

    @cached_property
    def foreign(self) -> KernelCall:
        return self._access.open(self._folder / FOREIGN)

    @cached_property
    def present(self) -> KernelCall:
        return self._access.open(self._folder / PRESENT)

    @cached_property
    def wide(self) -> KernelCall | None:
        """The present kernel with 64 bits; ``None`` if there is none, or it computes something else."""
        if not (self._folder / WIDE).exists():
            return None
        kernel, values = self._access.open(self._folder / WIDE), self.values(SEEDS[0])
        pairs = zip(self.run(kernel, values, wide=True), self.run(self.present, values), strict=True)
        # A kernel that takes floats apart into bits has others with 64.
        return kernel if all(np.allclose(*pair, rtol=1e-3, atol=1e-4) for pair in pairs) else None

    @cached_property
    def _constants(self) -> dict[int, Array]:
        with np.load(self._folder / CONSTANTS) as file:
            return {int(name): file[name] for name in file.files}

    def values(self, case: str) -> dict[int, Array]:
        return make_inputs(self.inputs, self._constants, case)

    def is_free(self, place: int) -> bool:
        """Return whether an input may have other values: indices in constants may not."""
        return place not in self._constants or not self.parameters[place].has_narrow_values

    def buffers(
        self,
        values: Mapping[int, Array],
        *,
        guards: Mapping[int, Guard] | None = None,
        fill: int = FILLS[0],
        beside: int = FILLS[0],
        wide: bool = False,
    ) -> list[GuardedArray]:
        """Return new memory for all parameters, with these inputs in it.

        Outputs are ``fill`` before a run, and the bytes beside inputs ``beside``.
        """
        memory = []
        for place, each in enumerate(self.parameters):
            byte = fill if each.is_output else beside
            memory.append(GuardedArray(each.shape, _dtype(each, wide), (guards or {}).get(place, Guard()), fill=byte))
            if place in values:
                memory[-1].array[...] = values[place]
        return memory

    def outputs(self, memory: Sequence[GuardedArray]) -> list[Array]:
        return [each.array.copy() for each, about in zip(memory, self.parameters, strict=True) if about.is_output]

    def run(self, kernel: KernelCall, values: Mapping[int, Array], **options: Any) -> list[Array]:
        """Return a kernel's outputs in new memory."""
        memory = self.buffers(values, **options)
        kernel([each.array for each in memory])
        return self.outputs(memory)

    def expected(self, values: Mapping[int, Array]) -> tuple[list[Array], Sequence[Array | None]]:
        """Return the present kernel's outputs, with 32 bits and with 64 where that is possible."""
        present = self.run(self.present, values)
        if self.wide is None:
            return present, [None] * len(present)
        return present, self.run(self.wide, values, wide=True)

    def compare(self, got: Sequence[Array], values: Mapping[int, Array]) -> str:
        present, wide = self.expected(values)
        problems = (difference(*each) for each in zip(got, present, wide, strict=True))
        return next(filter(None, problems), "")


def _dtype(parameter: KernelParameter, wide: bool) -> str:
    return "float64" if wide and parameter.dtype == "float32" else parameter.dtype


def _check_values(trial: _Trial, cases: Sequence[str]) -> Iterator[str]:
    for case in cases:
        values = trial.values(case)
        memory = trial.buffers(values)
        trial.foreign([each.array for each in memory])
        if problem := trial.compare(trial.outputs(memory), values):
            yield f"{case}: {problem}"
        for place, value in values.items():
            if memory[place].array.tobytes() != value.tobytes():
                yield f"{case}: it changes its input `{trial.parameters[place].name}`"


def _check_writes(trial: _Trial, request: Request) -> Iterator[str]:
    """Find outputs that are not written, or that depend on what was in their memory."""
    values = trial.values(SEEDS[0])
    results = [trial.run(trial.foreign, values, fill=fill) for fill in FILLS]
    for place, outputs in enumerate(zip(*results, strict=True)):
        size, item = outputs[0].size, outputs[0].dtype.itemsize
        values_bytes = [each.view(np.uint8).reshape(size, item) for each in map(np.ascontiguousarray, outputs)]
        is_left = [(each == fill).all(1) for each, fill in zip(values_bytes, FILLS, strict=True)]
        if left := int(np.all(is_left, axis=0).sum()):
            yield f"{left:,} of {size:,} values of output {place + 1} are not written"
        elif any((each != values_bytes[0]).any() for each in values_bytes[1:]):
            yield f"output {place + 1} depends on what was in its memory, or changes from run to run"


def _check_memory(trial: _Trial, request: Request) -> Iterator[str]:
    """Run on guarded buffers; a touch of a guard ends the process.

    ``places`` of the request are guarded, all by default; inputs are then read-only unless ``writable`` is set.
    """
    guard = Guard(request["side"], may_read=request.get("may_read", False))
    places = request.get("places") or range(len(trial.parameters))
    values, results = trial.values(SEEDS[0]), []
    for fill in FILLS:
        memory = trial.buffers(values, guards=dict.fromkeys(places, guard), fill=fill, beside=fill)
        for place in trial.inputs if not request.get("writable") else ():
            memory[place].forbid_writing()
        trial.foreign([each.array for each in memory])
        results.append(bits_of(trial.outputs(memory)))
        for place, each in enumerate(memory):
            if not each.margins_are_kept():
                yield f"it writes beside `{trial.parameters[place].name}`"
    if len({*results}) > 1:
        yield "its outputs depend on bytes that are not in its buffers"


def _check_state(trial: _Trial, request: Request) -> Iterator[str]:
    """Find answers that depend on earlier calls, or on addresses."""
    first, second = (trial.values(case) for case in SEEDS[:2])
    expected = bits_of(trial.run(trial.foreign, first))
    other = trial.run(trial.foreign, second)
    if bits_of(other) == expected:
        yield "other inputs get the first answer again"
    if problem := trial.compare(other, second):
        yield f"after another call: {problem}"
    if bits_of(trial.run(trial.foreign, first)) != expected:
        yield "the same inputs get another answer after other ones"
    yield from _check_same_memory(trial, (first, expected), (second, bits_of(other)))
    yield from _check_changes(trial, first)
    yield from _check_repetition(trial, first)


def _check_changes(trial: _Trial, values: Mapping[int, Array]) -> Iterator[str]:
    """Change one element at a time in the same memory, which an answer kept by a part of the inputs misses."""
    memory, begin = trial.buffers(values), time.monotonic()
    rng = np.random.default_rng(0)
    sizes = {place: value.size for place, value in values.items() if value.size and trial.is_free(place)}
    rounds: list[dict[int, int]] = [{place: size // 2 for place, size in sizes.items()}]
    rounds += [{place: size - 1 for place, size in sizes.items()}, dict.fromkeys(sizes, 0)]
    rounds += [{place: int(rng.integers(size)) for place, size in sizes.items()} for _ in range(CHANGES)]
    for element, place in ((each[place], place) for each in rounds for place in sizes):
        if time.monotonic() - begin > MOST_CHANGES_S:
            return
        flat, parameter = memory[place].array.reshape(-1), trial.parameters[place]
        before = flat[element].copy()
        flat[element] = _changed(before, parameter)
        trial.foreign([each.array for each in memory])
        changed = {**values, place: memory[place].array.copy()}
        problem = trial.compare(trial.outputs(memory), changed)
        flat[element] = before
        if problem:
            yield f"where one element of `{parameter.name}` has changed: {problem}"
            return


def _changed(value: Any, parameter: KernelParameter) -> Any:
    """Return another value of an element, which the outputs show in spite of their rounding."""
    if value.dtype.kind == "f":
        return value + 4
    if value.dtype.kind == "b":
        return not value
    return value ^ 1 if parameter.may_be_index else ~value


def _check_repetition(trial: _Trial, values: Mapping[int, Array]) -> Iterator[str]:
    """Find kernels that keep answers: measurements give one input again and again."""
    place = next((place for place, value in values.items() if value.size and value.dtype.kind == "f"), None)
    if place is None:
        return
    memory, begin = trial.buffers(values), time.monotonic()
    arrays = [each.array for each in memory]
    seconds: tuple[list[float], list[float]] = ([], [])
    last = arrays[place].reshape(-1)[-1:]
    for number in range(MOST_PAIRS):
        last[...] = 1 + number / MOST_PAIRS
        for times in seconds:
            start = time.perf_counter()
            trial.foreign(arrays)
            times.append(time.perf_counter() - start)
        if number + 1 >= LEAST_PAIRS and time.monotonic() - begin > PAIRS_S:
            break
    new, again = map(min, seconds)
    if new > MOST_GAIN * again and new - again > LEAST_GAIN_S:
        yield f"an input that comes again is answered {new / again:.0f} times faster than a new one"


def _check_same_memory(trial: _Trial, *pairs: tuple[Mapping[int, Array], str]) -> Iterator[str]:
    """Call again and again on the same memory; ``pairs`` are two inputs and the digests of their outputs."""
    memory = trial.buffers(pairs[0][0])
    arrays = [each.array for each in memory]

    def is_right(values: Mapping[int, Array], right: str) -> bool:
        for place, value in values.items():
            arrays[place][...] = value
        trial.foreign(arrays)
        return bits_of(trial.outputs(memory)) == right

    if not all(is_right(*pair) for pair in (*pairs, *pairs)):
        yield "inputs that are changed in place get another answer than in new memory"
    begin = time.monotonic()
    for _ in range(MOST_CALLS):
        trial.foreign(arrays)
        if time.monotonic() - begin > MOST_CALLS_S:
            break
    if not all(is_right(*pair) for pair in pairs):
        yield "its answers change after many calls"


def _check_threads(trial: _Trial, request: Request) -> Iterator[str]:
    """Run with a number of threads; yields the digest of the outputs, and another one if a later run differs."""
    number = request["threads"]
    # Read when the first thread starts, which is later than now: this process is a new fork.
    os.environ.update(TVM_NUM_THREADS=str(number), OMP_NUM_THREADS=str(number), OMP_DYNAMIC="false")
    trial.bridge.limit_threads(number)
    values = trial.values(SEEDS[0])
    yield from dict.fromkeys(bits_of(trial.run(trial.foreign, values, fill=fill)) for fill in FILLS)


_ACTIONS: Mapping[str, Callable[[KernelAccess, Module, Request], Answer]] = {
    "describe": _describe,
    "build present": _build_present,
    "build foreign": _build_foreign,
}
_CHECKS: Mapping[str, Callable[[_Trial, Request], Iterator[str]]] = {
    "writes": _check_writes,
    "usual": lambda trial, request: _check_values(trial, USUAL),
    "nasty": lambda trial, request: _check_values(trial, NASTY),
    "memory": _check_memory,
    "state": _check_state,
    "threads": _check_threads,
}
