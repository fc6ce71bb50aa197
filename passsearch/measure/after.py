"""The check at the end of a process that times artifacts: do they still compute what they computed before?

A kernel may stop computing after some calls, or change its inputs, and then be fast. numpy only.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.case_inputs import case_inputs, timed_inputs
from passsearch.dialects.contract import Array, Executable
from passsearch.dialects.input_values import EDGES
from passsearch.dialects.reference import MEAN, SLICES
from passsearch.measure.outputs import changed_input, compare

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
        case = next((case for case in cases if case not in EDGES and f"{case}_0" in file.files), None)
        # Not the sample that was timed: its outputs may still be in memory.
        others = [each for each in cases if each not in (case, *EDGES) and f"{each}_0" in file.files]
        if inputs.sample_count:
            case = others[0] if others else None
        if case is None:
            return None
        kept = (f"{case}_", MEAN, SLICES)
        expected = {name: file[name] for name in file.files if name.startswith(kept)}
    timed, other = timed_inputs(inputs), case_inputs(inputs, case)

    def check(executable: Executable) -> Mapping[str, Any]:
        changed = changed_input(executable, timed)
        results: dict[str, Array] = {f"{case}_{index}": array for index, array in enumerate(executable.run(other))}
        comparison = compare(results, expected, cases=[case])
        changed = changed or changed_input(executable, other)
        # Artifacts of one process get each other's memory: right values of this case would be found there by the next
        # one, which may compute nothing.
        executable.run(timed)
        return {**comparison, "changed": changed}

    return check
