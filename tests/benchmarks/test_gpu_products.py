"""Which tiles are timed for a product, and the table of what was timed."""

import math
from collections.abc import Callable
from typing import Any

import pytest

BERT = [1, 128, 3072, 768]


@pytest.fixture
def products(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu/products.py``."""
    return load_benchmark("gpu.products")


def test_tiles_neither_pad_much_nor_leave_the_gpu_idle(products: Any) -> None:
    tiles = list(products.tiles_for(BERT))
    assert len(tiles) == len(set(tiles)) > 100
    for tile in tiles:
        row_threads, column_threads, rows, columns, steps, parts = map(int, tile.removesuffix("v").split("x"))
        blocks = math.ceil(128 / row_threads / rows) * math.ceil(3072 / column_threads / columns) * parts
        assert parts == 1 or 64 <= blocks <= 2500
        assert 4 * steps * (row_threads * rows + column_threads * columns) <= 48 << 10
    assert "8x16x4x4x16x4v" in tiles and "8x16x4x4x16x4" in tiles
    assert not list(products.tiles_for([1, 128, 2, 768])), "two columns in 16 threads are mostly padding"


def test_every_product_has_its_turn(products: Any) -> None:
    jobs = products.order({"a": ["usual", "x", "y"], "b": ["z", "z"], "c": ["w", "v"]})
    assert jobs[:3] == [("a", "usual"), ("b", "z"), ("c", "w")]
    assert {digest for digest, _ in jobs[3:5]} == {"a", "c"}
    assert sorted(jobs) == [("a", "usual"), ("a", "x"), ("a", "y"), ("b", "z"), ("c", "v"), ("c", "w")]


def test_a_table_sums_what_the_calls_of_a_network_take(products: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        "a": {"calls": {"bert": 2, "gpt": 1}, "by_sizes": "t", "us": {"t": 10.0, "better": 8.0, "bestv": 5.0}},
        "b": {"calls": {"gpt": 3}, "by_sizes": "t", "us": {"t": 4.0, "worsev": 6.0}},
        "not timed": {"calls": {"gpt": 3}, "by_sizes": "t", "us": {}},
    }
    products.print_table({"products": rows, "left": 7})
    printed = capsys.readouterr().out
    assert "| bert | 1 | 20 | 16 | 10 |" in printed
    assert "| gpt | 2 | 22 | 20 | 17 |" in printed
    assert "7 builds are left out." in printed
