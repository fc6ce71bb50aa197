"""Kernel calls are assigned to the repeated blocks of the network they compute."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from passsearch.analysis import parts_of_calls
from passsearch.core import ModuleSummary

DATA = Path(__file__).parent / "data"
PRODUCTS = {"dense": "fused_matmul3_add4", "matmul": "fused_matmul_add", "batch_matmul": "batch_matmul1"}


@pytest.fixture(scope="module")
def bert() -> ModuleSummary:
    return ModuleSummary.from_json(json.loads(gzip.decompress((DATA / "bert.json.gz").read_bytes())))


@pytest.fixture(scope="module")
def products(bert: ModuleSummary) -> list[str]:
    """Return the kernels of all products with the parts they belong to, one call for each operator."""
    return [PRODUCTS[operator.kind] for operator in bert.operators if operator.kind in PRODUCTS]


def test_every_block_has_its_products_and_what_follows_them(bert: ModuleSummary, products: list[str]) -> None:
    kernels = ["take", *(name for product in products for name in (product, "softmax"))]
    parts = parts_of_calls(bert, kernels)
    assert parts is not None and len(parts) == len(kernels)
    counts = Counter(parts)
    blocks = {part: count for part, count in counts.items() if part.startswith("block ")}
    assert len(blocks) > 1
    # The look-up before the first product belongs to its part.
    assert blocks["block 1"] == blocks["block 2"] + (parts[0] == "block 1")
    assert list(dict.fromkeys(parts)) == sorted(counts, key=parts.index)


def test_a_build_that_merges_products_has_fewer_in_every_block(bert: ModuleSummary, products: list[str]) -> None:
    blocks = len({part for part in parts_of_calls(bert, products) or () if part.startswith("block ")})
    merged = parts_of_calls(bert, products[: len(products) - 2 * blocks])
    assert merged is not None
    whole = Counter(parts_of_calls(bert, products))
    assert {whole[part] - count for part, count in Counter(merged).items() if part.startswith("block ")} == {2}


def test_a_build_that_cannot_be_shared_out_has_no_parts(bert: ModuleSummary, products: list[str]) -> None:
    assert parts_of_calls(bert, products[:-1]) is None
    assert parts_of_calls(bert, ["softmax"]) is None


def test_a_network_without_repeats_has_no_parts() -> None:
    assert parts_of_calls(ModuleSummary((), ()), ["fused_matmul"]) is None
