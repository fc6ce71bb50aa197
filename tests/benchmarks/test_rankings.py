"""Orders that depend on the engine or the network are found, and nothing is read from an interval that contains 1."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def rankings(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("rankings")


def _cell(rankings: Any, network: str, engine: str, seconds: float, noise: float = 0.001) -> Any:
    times = tuple(seconds * (1 + noise * place) for place in (-1, 0, 1, 2))
    return rankings.Cell(network, 1, engine, "CPU", times)


def test_networks_whose_order_differs_between_engines_are_found(rankings: Any) -> None:
    times = [("a", "torch", 1.0), ("b", "torch", 2.0), ("a", "tvm", 0.9), ("b", "tvm", 0.5)]
    cells = [_cell(rankings, *row) for row in times]
    (pair,) = rankings.inversions(rankings.find_pairs(cells))
    assert (pair.kind, pair.first, pair.second) == ("networks", "a", "b")
    orders = {order.where: order for order in pair.orders}
    assert orders["torch"].sign == 1 and orders["torch"].ratio == pytest.approx(2.0, rel=1e-3)
    assert orders["tvm"].sign == -1
    assert "| a / b | torch: 2.00 | tvm: 1.80 | – |" in rankings.tables([pair])


def test_a_difference_within_the_noise_is_a_tie(rankings: Any) -> None:
    cells = [
        _cell(rankings, "a", "torch", 1.0, 0.2),
        _cell(rankings, "b", "torch", 1.05),
        _cell(rankings, "a", "tvm", 0.9),
        _cell(rankings, "b", "tvm", 0.5),
    ]
    pairs = rankings.find_pairs(cells)
    assert not rankings.inversions(pairs)
    (networks,) = (pair for pair in pairs if pair.kind == "networks")
    assert sorted(order.sign for order in networks.orders) == [-1, 0]


def test_disturbed_processes_and_failures_are_left_out(rankings: Any) -> None:
    row = {"engine": "torch", "batch": 2, "process_fastest_s": [1.0, 9.0, 1.0]}
    calm, disturbed = [{"foreign": 0.0}], [{"foreign": 0.5}]
    document = {
        "device": {"name": "CPU", "cores": 2},
        "model": {"name": "net"},
        "batches": [2],
        "disturbances": [[calm, disturbed, calm]],
        "rows": [row, {"engine": "xla", "batch": 2, "failure": "no"}],
    }
    (cell,) = rankings.read_cells(document)
    assert cell.logs == [pytest.approx(-0.6931, abs=1e-4)] * 2
