"""What is answered of the schedules of one kernel."""

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np

from passsearch.dialects.bits import bits_of
from passsearch.worker.variants import time_variants

made: list[weakref.ref[Any]] = []


class Adding:
    """A kernel whose only output is this number."""

    def __init__(self, number: float) -> None:
        self.digest, self.number = str(number), np.float32(number)

    def outputs(self) -> list[Any]:
        array = np.full(8, self.number)
        made.append(weakref.ref(array))
        return [array]

    def run(self) -> None:
        assert sum(each() is not None for each in made) <= 1, "outputs of many variants do not fit into memory"

    def event_time_s(self) -> float:
        return 1.0


def test_variants_have_the_bits_of_their_outputs_which_are_not_kept() -> None:
    numbers = (1.0, 1.0 + 2**-20, 2.0)
    bridge: Any = SimpleNamespace(
        kernel_arguments=lambda *_: None, open_kernel=lambda number, _: Adding(number), build_kernels=lambda _: None
    )
    plan = {"first_rounds": 1, "rounds": 1, "attempts": 1}
    request = {"cold_bytes": 0, "device": "cpu", "device_lock": None, "limit": 1e-3, "steps": numbers, "plan": plan}
    answers = time_variants(bridge, lambda number: number, request, cores=())  # type: ignore[arg-type, return-value]
    expected = [bits_of([np.full(8, np.float32(number))]) for number in numbers[:2]]
    assert [each.get("bits") for each in answers] == [*expected, None]
    assert len(set(expected)) == 2 and "other outputs" in answers[2]["reason"]
