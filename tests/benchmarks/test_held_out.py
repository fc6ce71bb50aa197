"""Networks that are named before they are measured: the list, the correction and the verdicts."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DRAW = ROOT / "benchmarks" / "results" / "held_out" / "draw.json"


@pytest.fixture
def benchmark(load_benchmark: Callable[[str], Any]) -> Any:
    """The benchmark as a module."""
    return load_benchmark("speed.held_out")


def row(own: list[float], rival: list[float]) -> dict[str, Any]:
    """Return a row whose rivals take the same times."""
    times = {"passsearch": own, "onnxruntime": rival, "openvino": rival}
    engines = {name: {"process_fastest_s": each, "process_median_s": each} for name, each in times.items()}
    return {"sequence": "schedule-cpu", "engines": engines}


def test_the_draw_keeps_to_its_sizes_and_has_a_reason_for_each_network_that_is_replaced(
    load_benchmark: Callable[[str], Any],
) -> None:
    draw = load_benchmark("speed.held_out_draw")
    draws = json.loads(DRAW.read_text())["draws"]
    taken = [each for each in draws if each["taken"]]
    counts = Counter(each["kind"] for each in taken)
    assert counts == draw.SIZES
    assert sum(counts.values()) == 40
    assert all(each["reason"] for each in draws if not each["taken"])
    assert len({each["file"] for each in taken if "file" in each}) == counts["timm"]
    for kind in ("graph", "recommender", "package"):
        assert [each["name"] for each in taken if each["kind"] == kind] == [*draw.candidates(kind)][: draw.SIZES[kind]]


def test_holms_correction_is_that_of_the_textbook_and_counts_what_is_missing(benchmark: Any) -> None:
    found = benchmark.corrected({"a": 0.01, "b": 0.04, "c": 0.03}, 3)
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert benchmark.corrected({"a": 0.01}, 80) == pytest.approx({"a": 0.8})


def test_students_test_is_two_sided(benchmark: Any) -> None:
    assert benchmark.probability([0.1, 0.2, 0.3, 0.2]) == pytest.approx(0.016, abs=0.001)
    assert benchmark.probability([-0.1, -0.2, -0.3, -0.2]) == pytest.approx(0.016, abs=0.001)
    assert benchmark.probability([0.1]) == 1


def test_a_failure_is_lost_and_a_rivals_failure_is_not_won(benchmark: Any) -> None:
    slow, fast = [2.0, 2.01, 1.99, 2.0, 2.0, 2.0, 2.01, 1.99], [1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 1.0, 1.0]
    refused, alone = {"failure": "the import is refused"}, row(fast, slow)
    del alone["engines"]["openvino"]["process_fastest_s"]
    seldom = row(fast, slow[:3])
    rows = {
        "seldom": seldom,
        "won": row(fast, slow),
        "lost": row(slow, fast),
        "even": row(fast, fast),
        "refused": refused,
        "x": alone,
    }
    found = benchmark.verdicts(rows)
    names = ("won", "lost", "even", "refused", "x")
    assert found["seldom", "openvino"] == "undecided"
    assert [found[name, "openvino"] for name in names] == ["faster", "slower", "undecided", "failed", "rival failed"]
    text = benchmark.table(rows, dict.fromkeys(names, "timm"))
    assert "| won | timm | schedule-cpu | 990.00 | 2.00 [1.99, 2.01] faster |" in text
    assert "* refused: the import is refused" in text
