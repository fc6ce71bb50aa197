"""``benchmarks/speed/sweep.py`` draws the same nodes in every run, and counts those that are slow."""

from collections.abc import Callable
from typing import Any

import numpy as np


def row(number: int, *, own: float, rival: float) -> dict[str, Any]:
    sequences = {"schedule-cpu": {"seconds": own}, "nhwc-schedule-cpu": {"failure": "refused"}}
    return {"number": number, "kind": "softmax", "rival_s": rival, "roofline_s": own / 4, "sequences": sequences}


def test_nodes_are_the_same_in_every_run_and_of_all_kinds(load_benchmark: Callable[[str], Any]) -> None:
    nodes = load_benchmark("speed.sweep_nodes")
    first, again = (nodes.draw_node(7)[1] for _ in range(2))
    assert first.text == again.text
    assert all(np.array_equal(array, again.inputs[name]) for name, array in first.inputs.items())
    assert {nodes.draw_node(number)[0] for number in range(300)} == {*nodes.KINDS}


def test_slow_nodes_are_counted_unless_the_call_takes_most_of_the_time(load_benchmark: Callable[[str], Any]) -> None:
    sweep = load_benchmark("speed.sweep")
    rows = [
        row(1, own=1e-3, rival=3e-4),
        row(2, own=1e-3, rival=4e-4),
        row(3, own=1e-3, rival=1e-3),
        row(4, own=1e-3, rival=1e-5),  # too short to be judged
    ]
    found = sweep.summary(rows)
    assert found["slow"] == [1]
    assert found["counts"]["softmax"] == [3, 1, 2, 3, 3]
    table = sweep.table({"before": found, "after": sweep.summary(rows[1:])})
    assert "| softmax | 2 | 1 / 0 | 2 / 1 | 3 / 2 | 3 / 2 |" in table


def test_a_node_that_is_not_built_has_no_throughput(load_benchmark: Callable[[str], Any]) -> None:
    sweep = load_benchmark("speed.sweep")
    failed = {**row(1, own=1e-3, rival=1e-3), "sequences": {"schedule-cpu": {"failure": "refused"}}}
    assert sweep.shares(failed) == (0.0, 0.0)
