"""The check at the end of a process that times artifacts: do they still compute what they computed before?

A kernel may stop computing after some calls, or change its inputs, and then be fast. numpy only.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.case_inputs import case_inputs, timed_inputs
from passsearch.dialects.contract import Array, Executable
from passsearch.dialects.reference import MEAN, SLICES
from passsearch.measure.outputs import changed_input, compare
from passsearch.standalone.deployment.input_values import EDGES

AfterCheck: TypeAlias = Callable[[Executable], Mapping[str, Any]]
"""Compares an artifact that was timed with the reference; returns the comparison, with ``changed`` (an input that the
network changes, in words)."""


def after_check(inputs: CheckInputs, reference: Path, cases: Sequence[int | str]) -> AfterCheck | None:
    """Return the check of artifacts that were timed; ``None`` if the reference has no inputs but the timed ones.

    Args:
        inputs: The network's inputs.
        reference: File with the reference's outputs.
        cases: The cases of the reference, of which some may be missing.
    """
    with np.load(reference) as file:
        usable = [case for case in cases if case not in EDGES and f"{case}_0" in file.files]
        # Not the sample that was timed: its outputs may still be in memory.
        usable = usable[1:] if inputs.sample_count else usable
        if not usable:
            return None
        kept = (*(f"{case}_" for case in usable), MEAN, SLICES)
        expected = {name: file[name] for name in file.files if name.startswith(kept)}
    # Artifacts of one process get each other's memory. The next one, which may compute nothing, would find the right
    # values of an earlier one there, so it runs on another case, and the memory is written once more behind each.
    turns = cycle(usable)
    timed = timed_inputs(inputs)

    def check(executable: Executable) -> Mapping[str, Any]:
        case = next(turns)
        other = case_inputs(inputs, case)
        changed = changed_input(executable, timed)
        results: dict[str, Array] = {f"{case}_{index}": array for index, array in enumerate(executable.run(other))}
        comparison = compare(results, expected, cases=[case])
        changed = changed or changed_input(executable, other)
        executable.run(timed)
        return {**comparison, "changed": changed}

    return check
