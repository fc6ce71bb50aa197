"""Documents that were written on another day are what their records say."""

import json
from pathlib import Path
from typing import Any

import pytest

from passsearch.results import Ablation, Record, RunResult

TESTS = Path(__file__).parents[1]
DOCUMENTS: list[tuple[type[Record], Path]] = [
    *((RunResult, file) for file in sorted((TESTS / "data" / "results").glob("*.json"))),
    (RunResult, TESTS / "report" / "data" / "result.json"),
    (Ablation, TESTS / "data" / "ablations" / "resnet_tiny-relax.json"),
]
OTHER_ORDERS = {".measured: order"}
"""Places where an earlier version wrote the keys of an ablation in another order."""


def differences(written: Any, read: Any, place: str = "") -> list[str]:
    """Return the places where a record has another value than the document it was read from, or another order."""
    if isinstance(written, dict) and isinstance(read, dict):
        common = [key for key in written if key in read]
        order = [] if common == [key for key in read if key in written] else [f"{place}: order"]
        return order + [each for key in common for each in differences(written[key], read[key], f"{place}.{key}")]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [each for pair in zip(written, read, strict=True) for each in differences(*pair, place)]
    return [] if written == read else [f"{place}: {written!r} and {read!r}"]


@pytest.mark.parametrize(("record", "file"), DOCUMENTS, ids=lambda value: getattr(value, "stem", ""))
def test_a_record_has_the_values_of_its_document_in_the_same_order(record: type[Record], file: Path) -> None:
    document = json.loads(file.read_text())
    read = record.from_json(document)
    assert {*differences(document, read.to_json())} <= OTHER_ORDERS
    assert record.from_json(read.to_json()) == read
