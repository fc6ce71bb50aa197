"""Documents that were written on another day are what their records say."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import unpack

from passsearch.results import Ablation, BestOfCatalog, ComparedPipeline, Record, RunResult
from passsearch.results.record import keys_of
from passsearch.store import read_ablation, read_result

TESTS = Path(__file__).parents[1]
FILES: list[tuple[type[Record], Path]] = [
    *((RunResult, file) for file in sorted((TESTS / "data" / "results").glob("*.json"))),
    (RunResult, TESTS / "report" / "data" / "result.json"),
    (Ablation, TESTS / "data" / "ablations" / "resnet_tiny-relax.json"),
]
FOLDERS = ("relax-finished", "relax-finished-format-7", "relay-finished")
LEFT_OUT: tuple[tuple[str, object], ...] = (("recalled", False), ("paths", []))
"""Keys that earlier versions wrote with these values and records leave out."""
OTHER_ORDERS = {".measured: order"}
"""Places where an earlier version wrote the keys of an ablation in another order."""


def differences(written: Any, read: Any, place: str = "") -> list[str]:
    """Return the places where a record lacks a key of the document it was read from, or has another value or order."""
    if isinstance(written, dict) and isinstance(read, dict):
        common = [key for key in written if key in read]
        order = [] if common == [key for key in read if key in written] else [f"{place}: order"]
        lost = [key for key, value in written.items() if key not in read and (key, value) not in LEFT_OUT]
        order += [f"{place}.{key}: missing" for key in lost]
        return order + [each for key in common for each in differences(written[key], read[key], f"{place}.{key}")]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [each for pair in zip(written, read, strict=True) for each in differences(*pair, place)]
    return [] if written == read else [f"{place}: {written!r} and {read!r}"]


def check(record: type[Record], document: dict[str, Any]) -> None:
    read = record.from_json(document)
    assert {*differences(document, read.to_json())} <= OTHER_ORDERS
    assert record.from_json(read.to_json()) == read


@pytest.mark.parametrize(("record", "file"), FILES, ids=lambda value: getattr(value, "stem", ""))
def test_a_record_has_the_keys_and_values_of_its_document(record: type[Record], file: Path) -> None:
    check(record, json.loads(file.read_text()))


@pytest.mark.parametrize("name", FOLDERS)
def test_records_have_the_keys_and_values_of_a_run_folder(name: str, tmp_path: Path) -> None:
    run = unpack(name, tmp_path)
    check(RunResult, read_result(run))
    ablation = read_ablation(run)
    assert ablation is not None
    check(Ablation, ablation)


def test_a_lost_key_is_noticed() -> None:
    assert differences({"a": 1, "recalled": False}, {"b": 1}) == [".a: missing"]


def test_the_keys_of_a_sequence_and_of_a_compared_pipeline_have_a_fixed_order() -> None:
    assert [key.key for key in keys_of(BestOfCatalog)][-4:] == ["of", "is_best", "gain", "improved"]
    first = ["name", "pipeline", "build", "toolchain", "state", "binary", "ratio", "ratio_of_medians", "outputs"]
    assert [key.key for key in keys_of(ComparedPipeline)][:10] == [*first, "improved"]
