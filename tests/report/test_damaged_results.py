"""A result with any key missing or wrong is refused in one line, or printed; nothing else happens."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from passsearch.report import RunRecord, report_page, result_text
from passsearch.results import RunResult
from passsearch.store.result_schema import schema_problem

read = RunResult.from_json

RESULTS = [json.loads(file.read_text()) for file in (Path(__file__).parents[1] / "data" / "results").glob("*.json")]
SEQUENCE = {"name": "AS-2", "of": 3, "is_best": False, "improved": True, "gain": {"ratio": 1.2, "interval": [1.1, 1.3]}}
RESULTS.append({**RESULTS[0], "sequence": {**copy.deepcopy(RESULTS[0]["best"]), **SEQUENCE}})
DELETED = object()
VALUES = (DELETED, None, "x", -1, 0, [], {}, True, 1e308, [1], {"a": 1}, "x" * 10_000)


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every key and to the first items of every list."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from places(item, (*before, key))


PLACES = [(number, place) for number, result in enumerate(RESULTS) for place in places(result)]


def mutated(number: int, place: tuple[Any, ...], value: object) -> dict[str, Any]:
    """Return a result with one key replaced or deleted."""
    result = copy.deepcopy(RESULTS[number])
    inner = result
    for key in place[:-1]:
        inner = inner[key]
    if value is DELETED:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return result


@pytest.mark.parametrize("result", RESULTS)
def test_recorded_results_are_read(result: dict[str, Any]) -> None:
    assert schema_problem(result, RunResult.json_schema()) == ""


def test_a_result_without_a_composition_is_read_with_the_reason() -> None:
    result = copy.deepcopy(RESULTS[0])
    failure = {"kind": "timeout", "stage": "measure", "step": "", "reason": "the search ended too early"}
    result["composition"] = {"failure": failure}
    assert schema_problem(result, RunResult.json_schema()) == ""
    assert "the search ended too early" in " ".join(result_text(read(result)).split())
    result["composition"] = {"kernels": 3}
    assert schema_problem(result, RunResult.json_schema())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
@example((0, ("best", "outputs", "deviation")), None)
@example((0, ("best", "energy_j")), 1e308)
@example((0, ("ratios", "throughput", "ratio")), 1e308)
@example((0, ("toolchain", "dialect")), "x" * 10_000)
@example((0, ("trials", 1, "compile_s")), 1e308)
def test_a_damaged_result_is_refused_in_a_line_or_printed(place: tuple[int, tuple[Any, ...]], value: object) -> None:
    result = mutated(*place, value)
    problem = schema_problem(result, RunResult.json_schema())
    if problem:
        assert len(problem) < 400 and "\n" not in problem
        assert place[1][0] in problem
    else:
        assert result_text(read(result), width=100) and report_page(
            [RunRecord(read(result)), RunRecord(read(RESULTS[0]))]
        )
