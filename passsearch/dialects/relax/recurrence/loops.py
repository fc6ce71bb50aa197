"""The loops of a recurrent layer over one sequence in one direction, whatever runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from .cell import LANES, Cell, Recurrence

SUMMED = 4
"""Numbers of the hidden state come in multiples of this, so that sums can be split."""

CHAINS = 4
"""Sums of blocks of lanes that are computed side by side, at least: an addition has to wait for the one before it."""


Store: TypeAlias = Callable[[Any, Any], None]
"""Emits the storage of the value of a unit."""


def index(value: int) -> Any:
    """Return an index of 64 bits, as Relax writes sizes."""
    return tirx.IntImm("int64", value)


def own_sizes(steps: Any, batch: Any) -> list[Any]:
    """Return the numbers of steps and sequences, with variables of the function's own for those that are open."""
    return [
        index(int(size)) if isinstance(size, int | tirx.IntImm) else tirx.Var(name, "int64")
        for name, size in (("steps", steps), ("batch", batch))
    ]


def is_single(batch: Any) -> bool:
    """Return True for the size of a batch that is certainly 1."""
    return isinstance(batch, tirx.IntImm) and int(batch) == 1


def summed(recurrence: Recurrence) -> int:
    """Return the size of the hidden state that is multiplied, with zeros at its end."""
    return -(-recurrence.hidden // SUMMED) * SUMMED


@dataclass(frozen=True)
class Tensors:
    """The parameters of the function.

    Attributes:
        x: Sums of the inputs' products and biases: [steps, batch, directions * blocks * gates * lanes], of a single
            sequence [steps, directions * blocks * gates * lanes], which the schedules of a product like better.
        weights: Recurrent weights for each phase: [directions, blocks, summed, gates, lanes].
        bias: Bias of a product that is multiplied by the reset gate: [directions, blocks, lanes].
        peepholes: Those of the gates input, output, forget: [directions, blocks, 3, lanes].
        lengths: Lengths of the sequences.
        starts: First states: [directions, batch, hidden].
        y: Hidden state after each step: [steps, directions, batch, hidden].
        ends: Last states, as ``starts``.
    """

    x: Any
    weights: Sequence[Any]
    bias: Any | None
    peepholes: Any | None
    lengths: Any | None
    starts: Sequence[Any]
    y: Any
    ends: Sequence[Any]


def declare(recurrence: Recurrence, steps: Any, batch: Any) -> Tensors:
    """Declare the parameters of the function, in the order of its arguments."""
    each = recurrence
    blocks, directions = each.blocks, each.directions

    def parameter(name: str, *shape: Any, dtype: str = each.dtype) -> Any:
        sizes = [index(size) if isinstance(size, int) else size for size in shape]
        return T.arg(name, T.buffer(sizes, dtype, layout=None))

    states = ("hidden", "cell")[: 2 if each.has_memory else 1]
    rows = [steps] if is_single(batch) else [steps, batch]
    return Tensors(
        x=parameter("x", *rows, directions * blocks * each.gates * LANES),
        weights=[
            parameter(f"weights{place}", directions, blocks, summed(each), len(gates), LANES)
            for place, gates in enumerate(each.phases)
        ],
        bias=parameter("bias", directions, blocks, LANES) if each.resets_product else None,
        peepholes=parameter("peepholes", directions, blocks, 3, LANES) if each.has_peepholes else None,
        lengths=parameter("lengths", batch, dtype="int32") if each.has_lengths else None,
        starts=[parameter(f"first_{name}", directions, batch, each.hidden) for name in states],
        y=parameter("y", steps, directions, batch, each.hidden),
        ends=[parameter(f"last_{name}", directions, batch, each.hidden) for name in states],
    )


def position(recurrence: Recurrence, direction: Any, step: Any, length: Any) -> Any:
    """Return the place in the sequence that a direction reads in a step."""
    if not any(recurrence.reverse):
        return step
    backwards = length - index(1) - step
    return backwards if all(recurrence.reverse) else tirx.Select(direction == 0, step, backwards)


class Steps:
    """The loops over one sequence in one direction; a subclass says who computes which block of units.

    The hidden state is held twice: a step reads one half of it, and writes the other half.
    """

    sums_scope: str
    """Memory of the sums of a block."""

    lanes: int
    """Units of a block that one thread computes."""

    def __init__(self, recurrence: Recurrence, tensors: Tensors, direction: Any, row: Any, steps: Any) -> None:
        self._recurrence, self._tensors, self._cell = recurrence, tensors, Cell(recurrence, direction)
        self._direction, self._row, self._steps = direction, row, steps
        self._length = steps
        if tensors.lengths is not None:
            self._length = tirx.max(index(0), tirx.min(tensors.lengths[row].astype("int64"), steps))

    def emit(self) -> None:
        """Emit all loops."""
        self._begin()
        with self._threads(), T.serial(self._length) as step:
            self._step(step)
        self._end()

    def _begin(self) -> None:
        each, tensors = self._recurrence, self._tensors
        self._units = each.blocks * LANES
        self._hidden = self._allocate(2 * self._units)
        states = [(self._hidden, 2 * self._units)]
        if each.has_memory:
            self._memory = self._allocate(self._units)
            states.append((self._memory, self._units))
        if len(each.phases) > 1:
            self._update, self._reset = self._allocate(self._units), self._allocate(self._units)
        for (state, size), start in zip(states, tensors.starts, strict=True):
            self._fill(state, each.hidden, size)  # products read zeros beyond the last unit
            self._copy(self._reader(start), self._of(state))

    def _end(self) -> None:
        last = tirx.floormod(self._length, index(2)) * index(self._units)
        hidden, *memory = (self._place(end, self._direction, self._row) for end in self._tensors.ends)
        self._copy(lambda unit: self._or_zero(self._hidden[last + unit]), hidden)
        for end in memory:
            self._copy(lambda unit: self._or_zero(self._memory[unit]), end)
        if self._tensors.lengths is not None:
            # The steps that a sequence does not have: their outputs are zeros.
            with T.serial(self._steps - self._length) as step:
                output = self._place(self._tensors.y, self._length + step, self._direction, self._row)
                self._copy(lambda _: tirx.const(0, self._recurrence.wide), output)

    def _or_zero(self, value: Any) -> Any:
        """Return the last state of a sequence; zero for one without steps, as in ONNX Runtime."""
        if self._tensors.lengths is None:
            return value
        return tirx.Select(self._length == index(0), tirx.const(0, self._recurrence.wide), value)

    def _step(self, step: Any) -> None:
        each = self._recurrence
        half, parity = index(self._units), tirx.floormod(step, index(2))
        self._before, self._after = parity * half, (index(1) - parity) * half
        self._at = position(each, self._direction, step, self._length)
        output = self._place(self._tensors.y, self._at, self._direction, self._row)
        for phase, gates in enumerate(each.phases):
            with self._together(), self._blocks() as block:
                sums = self._sums(phase, block)
                self._gates(phase, block, dict(zip(gates, sums, strict=True)))
                if phase == len(each.phases) - 1:
                    self._copy_block(block, lambda unit: self._hidden[self._after + unit], output)

    def _sums(self, phase: int, block: Any) -> list[Callable[[Any], Any]]:
        """Emit the loop of the sums of a block; return for each gate the function of a lane that reads its sum."""
        each, gates = self._recurrence, self._recurrence.phases[phase]
        chains = next(count for count in (1, 2, 4) if count == SUMMED or count * len(gates) >= CHAINS)
        sums = [
            [T.alloc_buffer([index(self.lanes)], each.wide, scope=self.sums_scope, layout=None) for _ in gates]
            for _ in range(chains)
        ]
        for chain in range(chains):
            for number, gate in enumerate(gates):
                with self._lanes() as lane:
                    value = tirx.const(0, each.wide) if chain else self._wide(self._first(block, gate, lane))
                    T.buffer_store(sums[chain][number], value, [self._own(lane)])
        with T.serial(index(summed(each) // chains)) as outer:
            for chain in range(chains):
                term = outer * index(chains) + index(chain)
                factor = self._reset[term] if phase else self._hidden[self._before + term]
                for number, partial in enumerate(sums[chain]):
                    with self._lanes() as lane:
                        weight = self._wide(self._tensors.weights[phase][self._direction, block, term, number, lane])
                        T.buffer_store(partial, partial[self._own(lane)] + factor * weight, [self._own(lane)])

        def total(number: int) -> Callable[[Any], Any]:
            def read(lane: Any) -> Any:
                first, *rest = (chain[number][self._own(lane)] for chain in sums)
                return sum(rest, start=first)

            return read

        return [total(number) for number in range(len(gates))]

    def _first(self, block: Any, gate: int, lane: Any) -> Any:
        """Return what a sum begins with."""
        if self._recurrence.resets_product and gate == 2:
            bias: Any = self._tensors.bias
            return bias[self._direction, block, lane]
        return self._input(block, gate, lane)

    def _own(self, lane: Any) -> Any:
        """Return the place of a lane in a thread's own sums."""
        return lane if self.lanes > 1 else index(0)

    def _gates(self, phase: int, block: Any, sums: dict[int, Callable[[Any], Any]]) -> None:
        each, cell = self._recurrence, self._cell
        if each.kind == "LSTM":
            self._store(self._memory, block, lambda lane, unit: cell.memory(
                [sums[gate](lane) for gate in (0, 2, 3)], self._memory[unit], self._peepholes(block, lane, (0, 2))
            ))  # fmt: skip
            self._store_hidden(block, lambda lane, unit: cell.output(
                sums[1](lane), self._memory[unit], self._peepholes(block, lane, (1,))
            ))  # fmt: skip
        elif each.kind == "RNN":
            self._store_hidden(block, lambda lane, unit: cell.rnn(sums[0](lane)))
        else:
            self._gru_gates(phase, block, sums)

    def _gru_gates(self, phase: int, block: Any, sums: dict[int, Callable[[Any], Any]]) -> None:
        each, cell = self._recurrence, self._cell

        def hidden(unit: Any) -> Any:
            return self._hidden[self._before + unit]

        if each.resets_product:
            self._store_hidden(block, lambda lane, unit: cell.renewed(
                self._wide(self._input(block, 2, lane)) + cell.gate(sums[1](lane)) * sums[2](lane),
                cell.gate(sums[0](lane)), hidden(unit),
            ))  # fmt: skip
        elif phase == 0:
            self._store(self._update, block, lambda lane, unit: cell.gate(sums[0](lane)))
            self._store(self._reset, block, lambda lane, unit: cell.gate(sums[1](lane)) * hidden(unit))
        else:
            self._store_hidden(block, lambda lane, unit: cell.renewed(sums[2](lane), self._update[unit], hidden(unit)))

    def _store_hidden(self, block: Any, value: Callable[[Any, Any], Any]) -> None:
        """Emit the loop that stores the new hidden state of a block, zeros beyond the last unit."""
        hidden = index(self._recurrence.hidden)

        def masked(lane: Any, unit: Any) -> Any:
            new = value(lane, unit)
            is_whole = self._recurrence.hidden == self._units
            return new if is_whole else tirx.Select(unit < hidden, new, tirx.const(0, self._recurrence.wide))

        self._store(self._hidden, block, masked, offset=self._after)

    def _store(self, state: Any, block: Any, value: Callable[[Any, Any], Any], *, offset: Any = None) -> None:
        with self._lanes() as lane:
            unit = block * index(LANES) + lane
            T.buffer_store(state, value(lane, unit), [unit if offset is None else offset + unit])

    def _peepholes(self, block: Any, lane: Any, places: Sequence[int]) -> list[Any]:
        tensor = self._tensors.peepholes
        return [] if tensor is None else [self._wide(tensor[self._direction, block, each, lane]) for each in places]

    def _input(self, block: Any, gate: int, lane: Any) -> Any:
        group = (self._direction * index(self._recurrence.blocks) + block) * index(self._recurrence.gates) + index(gate)
        row = (self._at,) if len(self._tensors.x.shape) == 2 else (self._at, self._row)
        place = (*row, group * index(LANES) + lane)
        return self._tensors.x[place]

    def _reader(self, state: Any) -> Callable[[Any], Any]:
        return lambda unit: self._wide(state[self._direction, self._row, unit])

    def _of(self, state: Any) -> Store:
        return lambda unit, value: T.buffer_store(state, value, [unit])

    def _place(self, tensor: Any, *places: Any) -> Store:
        dtype = self._recurrence.dtype
        return lambda unit, value: T.buffer_store(tensor, value.astype(dtype), [*places, unit])

    def _wide(self, value: Any) -> Any:
        return value if self._recurrence.wide == self._recurrence.dtype else value.astype(self._recurrence.wide)

    def _threads(self) -> AbstractContextManager[Any]:
        """Return the region in which the threads run that share the blocks of units."""
        return nullcontext()

    def _together(self) -> AbstractContextManager[Any]:
        """Return the region at whose end these threads wait for each other."""
        return nullcontext()

    def _blocks(self) -> AbstractContextManager[Any]:
        """Return the loop over blocks of units."""
        raise NotImplementedError

    def _lanes(self) -> AbstractContextManager[Any]:
        """Return the loop over the units of a block."""
        raise NotImplementedError

    def _copy(self, value: Callable[[Any], Any], store: Store) -> None:
        """Emit the loops that store the value of each unit."""
        raise NotImplementedError

    def _copy_block(self, block: Any, value: Callable[[Any], Any], store: Store) -> None:
        """Emit the loop that stores the value of each unit of a block."""
        raise NotImplementedError

    def _fill(self, state: Any, first: int, last: int) -> None:
        """Emit the loop that stores zeros."""
        raise NotImplementedError

    def _allocate(self, size: int) -> Any:
        """Emit the allocation of a state."""
        raise NotImplementedError
