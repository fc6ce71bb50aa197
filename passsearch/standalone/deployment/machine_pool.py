"""A network as a function that several threads may call at once.

A virtual machine or graph executor holds the state of one call, and two calls at once spoil it. So each call borrows a
machine of its own; all machines share the weights.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np


class InputError(ValueError):
    """Arrays that the network does not take. The text is one line that says what it takes."""


class MachinePool:
    """Machines with the same weights, each of which runs one call at a time.

    Attributes:
        machines: The largest number of machines, that is, of calls that run at once.
    """

    def __init__(self, make: Any, machines: int | None = None) -> None:
        """Make the first machine; others are made when calls overlap.

        Args:
            make: Function that returns another machine, which is a function.
            machines: See the attribute; by default as many as this process may use processors.
        """
        if machines is not None and machines < 1:
            raise ValueError(f"`machines` must be 1 or more; got {machines}")
        self.machines = machines or len(os.sched_getaffinity(0))
        self._make, self._making = make, threading.Lock()
        self._places = threading.BoundedSemaphore(self.machines)
        self._free = [make()]

    def run(self, *arguments: Any) -> Any:
        """Call a machine that is free, or wait for one."""
        with self._places:
            machine = self._borrow()
            result = machine(*arguments)
            # A machine that has failed may hold half a call, so it is not used again.
            self._free.append(machine)
        return result

    def _borrow(self) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            with self._making:
                return self._make()


class Signature:
    """The inputs of a network, which arrays are compared with before a call.

    Attributes:
        inputs: ``[name, dtype, shape]`` of each input in order. An open size has a name in place of a number.
    """

    def __init__(self, inputs: Any) -> None:
        self.inputs = inputs

    def check(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values by name as arrays; raise ``InputError`` for one that is missing, unknown or of another type."""
        unknown = [name for name in values if name not in {each[0] for each in self.inputs}]
        absent = [name for name, _, _ in self.inputs if name not in values]
        if unknown or absent:
            faults = [f"no input `{name}`" for name in unknown] + [f"`{name}` is missing" for name in absent]
            raise InputError(f"{faults[0][0].upper()}{', '.join(faults)[1:]}; the network takes {self}")
        sizes: dict[str, int] = {}
        return {name: _check(name, values[name], dtype, shape, sizes) for name, dtype, shape in self.inputs}

    def by_name(self, arrays: Any, named: Any) -> dict[str, Any]:
        """Return the values of a call by name; see ``Network``."""
        if len(arrays) == 1 and hasattr(arrays[0], "keys"):
            arrays, named = (), {**arrays[0], **named}
        if len(arrays) > len(self.inputs):
            raise InputError(f"{len(arrays)} arrays are too many; the network takes {self}")
        placed = {name: array for (name, _, _), array in zip(self.inputs, arrays)}
        for name in placed:
            if name in named:
                raise InputError(f"`{name}` is there twice, by place and by name; the network takes {self}")
        return {**placed, **named}

    def __str__(self) -> str:
        return ", ".join(f"`{name}` {_type(dtype, shape)}" for name, dtype, shape in self.inputs) or "no inputs"


class Network:
    """A built network. Call it with arrays by place, by name, or with one mapping of names to arrays.

    It returns a list of arrays. Any number of threads may call it: as many calls as there are machines run at once, and
    the others wait.

    Attributes:
        inputs: ``[name, dtype, shape]`` of each input in order. An open size has a name in place of a number.
        machines: The largest number of calls that run at once.
    """

    def __init__(self, make: Any, inputs: Any, machines: int | None = None) -> None:
        """See ``MachinePool``; a machine is a function of a mapping of names to arrays."""
        self._pool, self._signature = MachinePool(make, machines), Signature(inputs)
        self.inputs, self.machines = inputs, self._pool.machines

    def __call__(self, *arrays: Any, **named: Any) -> list[Any]:
        """Run the network once; raise ``InputError`` for inputs that it does not take."""
        return self._pool.run(self.check(*arrays, **named))  # type: ignore[no-any-return]

    def check(self, *arrays: Any, **named: Any) -> dict[str, Any]:
        """Return the arrays by name; raise ``InputError`` if one is missing, unknown, or of another type or shape."""
        return self._signature.check(self._signature.by_name(arrays, named))


def _check(name: str, value: Any, dtype: str, shape: Any, sizes: dict[str, int]) -> Any:
    """Return an input as an array; ``sizes`` gets the open sizes, which are the same wherever they have one name."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"`{name}` is no array: {str(error).splitlines()[0]}") from None
    if array.dtype.kind in "OSU":
        raise InputError(f"`{name}` must be {_type(dtype, shape)}, and is {_kind(value)}; give an array of numbers")
    check_type(name, str(array.dtype), array.shape, dtype, shape, sizes, 'numpy.asarray(value, "{}")')
    return array


def check_type(
    name: str, actual: str, actual_shape: Any, dtype: str, shape: Any, sizes: dict[str, int], conversion: str
) -> None:
    """Raise ``InputError`` where a value has another dtype or shape than an input.

    Args:
        name: Name of the input.
        actual: The value's dtype.
        actual_shape: The value's shape.
        dtype: The input's dtype.
        shape: The input's shape.
        sizes: Gets the open sizes, which are the same wherever they have one name.
        conversion: Expression that converts a value, with ``{}`` for the dtype.
    """
    if shape == ["*"]:
        shape = actual_shape
    sized = zip(shape, actual_shape)
    wanted = [sizes.setdefault(size, own) if isinstance(size, str) else size for size, own in sized]
    is_right_shape = len(shape) == len(actual_shape) and list(actual_shape) == wanted
    if is_right_shape and actual == dtype:
        return
    hint = ""
    if is_right_shape:
        hint = f"; convert it: {conversion.format(dtype)}"
    elif len(shape) == len(actual_shape) > 0 and list(actual_shape[1:]) == wanted[1:] and actual == dtype:
        hint = f"; call it once for each batch of {wanted[0]}, or export the network for another size"
    open_sizes = "".join(f", where {size} is {sizes[size]}" for size in shape if size in sizes)
    wanted_type = f"{_type(dtype, shape)}{open_sizes}"
    raise InputError(f"`{name}` must be {wanted_type}, and is {_type(actual, actual_shape)}{hint}")


def _kind(value: Any) -> str:
    """Return in words what a value without numbers is."""
    if isinstance(value, (str, bytes)):
        return f"the text {value[:60]!r}"
    return "None" if value is None else f"a value of type `{type(value).__name__}` without numbers"


def _type(dtype: Any, shape: Any) -> str:
    return f"{dtype}[{', '.join(map(str, shape))}]"
