"""The inputs of a network's check by case, and the user's file of samples. numpy only, so that any process can use it.

A *case* is a seed of random inputs, the name of an edge input, or a sample of the user, ``sample0`` and so on.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile, ZipFile

import numpy as np

from passsearch.core import SAMPLES, CheckInputs, InputRange, TensorType, check_archive, suggest_name
from passsearch.dialects.contract import Array
from passsearch.errors import UserError
from passsearch.standalone.deployment.input_values import EDGES, FLOAT_EDGES, make_inputs

SAMPLE = "sample"
"""Beginning of the name of a case that is a sample of the user."""

MOST_VALUES = 16
"""Most different values in the samples of an integer input that random inputs are drawn from."""

SPARE_BYTES = 1 << 30
"""What a file of samples may hold beyond eight times its size: masks of ones pack well."""

MAGNITUDES = "magnitudes"
"""Case of floats of mixed magnitude: a sum of them has other bits in another order. Its values are never judged."""

MOST_POWER = 8
"""Largest power of two, and its inverse, that these floats are multiplied by."""

LABELS = "labels"
"""Name of the array of right classes, which may be in the file of samples."""

_EXAMPLE = "numpy.savez(FILE, {name}=array)"


def case_inputs(inputs: CheckInputs, case: int | str) -> dict[str, Array]:
    """Return the inputs of one case; equal arguments give equal arrays in every process."""
    if is_sample(case):
        return _sample(inputs, int(str(case).removeprefix(SAMPLE)))
    document = inputs.to_json()
    made = make_inputs(document["types"], document["ranges"], 0 if case == MAGNITUDES else case)
    return (
        made
        if case != MAGNITUDES
        else {name: _mixed(array, is_mask=name in inputs.ranges) for name, array in made.items()}
    )


def _mixed(array: Array, *, is_mask: bool) -> Array:
    if array.dtype.kind != "f" or is_mask:
        return array
    powers = np.random.default_rng(0).integers(-MOST_POWER, MOST_POWER + 1, array.shape)
    return np.asarray(array * np.exp2(powers), array.dtype)


def timed_inputs(inputs: CheckInputs) -> dict[str, Array]:
    """Return the inputs that are timed: the user's first sample, or random ones."""
    return case_inputs(inputs, f"{SAMPLE}0" if inputs.sample_count else 0)


def random_inputs(types: Mapping[str, TensorType], *, seed: int) -> dict[str, Array]:
    """Return random inputs by types alone: floats are normal, integers and booleans are 0 or 1."""
    return case_inputs(CheckInputs(types), seed)


def is_sample(case: int | str) -> bool:
    """Return whether a case is a sample of the user."""
    return isinstance(case, str) and case.startswith(SAMPLE)


def checked_cases(inputs: CheckInputs, cases: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the cases that a network is checked on: the samples of the user, then those of ``cases`` that differ.

    Without inputs of floats most edge inputs are those of seed 0.
    """
    has_floats = any(kind.dtype.startswith("float") for kind in inputs.types.values())
    samples = tuple(f"{SAMPLE}{number}" for number in range(inputs.sample_count))
    return samples + tuple(case for case in cases if has_floats or case not in FLOAT_EDGES)


def edge_cases(cases: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the cases that are edge inputs."""
    return tuple(case for case in cases if isinstance(case, str) and case in EDGES)


def with_samples(inputs: CheckInputs, file: Path) -> CheckInputs:
    """Return the inputs with the user's samples; integers are drawn from the samples' values or their range.

    Raises:
        UserError: The file is none of samples, lacks an input, or has an array of another shape or dtype.
    """
    arrays = read_samples(file)
    unknown = next((name for name in arrays if name not in (*inputs.types, LABELS)), None)
    if unknown is not None:
        known = ", ".join(f"`{name}`" for name in inputs.types)
        guess = suggest_name(unknown, inputs.types) or f"its arrays are named like the inputs, which are {known}."
        example = _EXAMPLE.format(name=next((name for name in inputs.types if name not in arrays), "NAME"))
        raise UserError(f"`{file}` has an array `{unknown}`; {guess} Write it again: {example}")
    counts = {name: _count(name, kind, arrays, file) for name, kind in inputs.types.items()}
    several = {count for count in counts.values() if count is not None}
    if len(several) > 1:
        texts = ", ".join(f"`{name}` has {count}" for name, count in counts.items() if count is not None)
        raise UserError(f"All inputs in `{file}` need one number of samples; {texts}.")
    ranges = {name: range_ for name in inputs.ranges if (range_ := _range(arrays[name]))}
    return CheckInputs(inputs.types, {**inputs.ranges, **ranges}, str(file), several.pop() if several else 1)


_UNREADABLE = (
    *(OSError, ValueError, EOFError, BadZipFile, AttributeError, TypeError, MemoryError, OverflowError),
    *(RecursionError, TokenError),
)
"""Errors of numpy, which reads the header of an array as Python."""


def read_samples(file: Path) -> dict[str, Array]:
    """Return the arrays of a file of samples by name of the input.

    Raises:
        UserError: There is no such file, or it is none of ``numpy.savez``.
    """
    try:
        check_sizes(file)
        # Without pickles: they run code.
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise UserError(f"There is no file of samples `{file}`.") from None
    except _UNREADABLE as error:
        reason = " ".join(str(error).split())[:100]
        raise UserError(
            f"`{file}` is no file of samples ({reason}); write one array for each input: {_EXAMPLE.format(name='NAME')}"
        ) from error


def check_sizes(file: Path) -> None:
    """Refuse a file whose arrays are larger than it can mean.

    Raises:
        ValueError, BadZipFile, OSError: It is no archive of arrays, or holds less than its arrays declare.
    """
    for problem in check_archive(file, r".+\.npy", spare_bytes=SPARE_BYTES):
        raise ValueError(problem)
    with ZipFile(file) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as content:
                is_long = np.lib.format.read_magic(content) != (1, 0)
                read = np.lib.format.read_array_header_2_0 if is_long else np.lib.format.read_array_header_1_0
                shape, _, dtype = read(content)
                if math.prod(shape) * dtype.itemsize > entry.file_size:
                    raise ValueError(f"`{entry.filename}` declares {list(shape)} and is {entry.file_size:,} bytes long")


def _count(name: str, kind: TensorType, arrays: Mapping[str, Array], file: Path) -> int | None:
    """Return the number of samples of one input; ``None`` for one sample without a leading axis.

    Raises:
        UserError: The file has no array for the input, or one of another type or shape.
    """
    if name not in arrays:
        raise UserError(f"`{file}` has no array for input `{name}`; add it: {_EXAMPLE.format(name=name)}")
    array, shape = arrays[name], tuple(kind.shape)
    if str(array.dtype) != kind.dtype:
        raise UserError(f"Input `{name}` is {kind.dtype}; its array in `{file}` is {array.dtype}.")
    if array.shape == shape:
        return None
    if array.shape[1:] == shape and len(array):
        return len(array)
    if array.shape[1:] == shape:
        raise UserError(
            f"The array of input `{name}` in `{file}` has the shape {list(array.shape)} and so no sample; give one or "
            f"more of the shape {list(shape)}, or leave --samples out."
        )
    raise UserError(
        f"Input `{name}` has the shape {list(shape)}; its array in `{file}` has {list(array.shape)}, which is neither "
        "that nor several samples of it in a leading dimension."
    )


def _range(array: Array) -> InputRange | None:
    """Return the range of an integer input that follows from its samples."""
    if array.dtype.kind not in "iu" or not array.size:
        return None
    values = np.unique(array)
    few = tuple(map(int, values)) if len(values) <= MOST_VALUES else ()
    return InputRange(int(values[0]), int(values[-1]), SAMPLES, few)


def _sample(inputs: CheckInputs, number: int) -> dict[str, Array]:
    arrays = read_samples(Path(inputs.samples))
    return {
        name: np.ascontiguousarray(arrays[name] if arrays[name].shape == tuple(kind.shape) else arrays[name][number])
        for name, kind in inputs.types.items()
    }
