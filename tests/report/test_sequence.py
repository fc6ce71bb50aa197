"""What a search gained over the best sequence of the catalog, in words and as a row."""

from typing import Any

import pytest

from passsearch.report import headline_text, result_html, result_text, search_sentence
from passsearch.results import RunResult

read = RunResult.from_json

CONFIRMED = {"ratio": 1.25, "interval": [1.2, 1.3]}


@pytest.fixture
def improved(result: dict[str, Any]) -> dict[str, Any]:
    """A result that is confirmed to run 1.5 times faster than the baseline."""
    result["verdict"] |= {"improved": True, "ratio": 1.5, "interval": [1.4, 1.6]}
    result["ratios"] |= {"compile_time": None}
    return result


def sequence(best: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return the best of three sequences, with the measurement of another candidate."""
    place = {"of": 3, "is_best": False, "gain": None, "improved": False}
    return {**best, "name": "AS-2", "ratio": {"ratio": 1.2, "interval": [1.1, 1.3]}, **place, **keys}


@pytest.mark.parametrize(
    ("keys", "headline", "gain", "added"),
    [
        (
            {"gain": {"ratio": 1.25, "interval": [1.2, 1.3]}, "improved": True},
            "than O3. It runs 1.250 [1.200, 1.300] times faster than AS-2, the best sequence of the catalog.",
            "1.250 [1.200, 1.300] times the throughput of AS-2, the fastest of 3 sequences of the catalog",
            "added a gain: 1.250 [1.200, 1.300] times the throughput of AS-2, the fastest of 3 sequences of the "
            "catalog that were measured",
        ),
        (
            {"gain": {"ratio": 1.01, "interval": [0.9, 1.1]}, "of": 1},
            "than O3. No gain over AS-2, the best sequence of the catalog, is shown: 1.010 [0.900, 1.100] times its "
            "throughput.",
            "none is shown: 1.010 [0.900, 1.100] times the throughput of AS-2, the only sequence of the catalog that "
            "was measured (noise floor 0.4 %)",
            "added nothing that is certain: 1.010 [0.900, 1.100] times the throughput of AS-2, the only sequence of "
            "the catalog that was measured",
        ),
        (
            {"is_best": True},
            "than O3. The winner is the same binary as AS-2 of the catalog.",
            "none: the winner is the same binary as AS-2, the fastest of 3 sequences of the catalog that were measured",
            "added nothing: its winner is the same binary as AS-2, the fastest of 3 sequences of the catalog that were "
            "measured",
        ),
        (
            {"gain": {"ratio": 1.25, "interval": None}},
            "runs 1.500 [1.400, 1.600] times faster than O3.",
            "not confirmed: 1.250 times the throughput of AS-2",
            "confirmed no gain: 1.250 times the throughput of AS-2, the fastest of 3 sequences of the catalog that "
            "were measured, in its own measurement",
        ),
    ],
    ids=["gain", "undecided", "the winner is a sequence", "not confirmed"],
)
def test_a_result_says_what_the_search_gained(
    improved: dict[str, Any], keys: dict[str, Any], headline: str, gain: str, added: str
) -> None:
    improved["sequence"] = sequence(improved["best"], **keys)
    assert headline_text(read(improved)).endswith(headline)
    text = " ".join(result_text(read(improved), width=120).split())
    assert f"gain of the search: {gain}" in text
    assert gain in " ".join(result_html(read(improved)).split())
    assert search_sentence(read(improved)) == f"A search of 473 s {added}."


def test_a_quick_compile_that_is_a_sequence_says_so(result: dict[str, Any]) -> None:
    result["sequence"] = sequence(result["best"], is_best=True)
    assert headline_text(read(result)).endswith("of its speed. The winner is the same binary as AS-2 of the catalog.")
    result["sequence"]["is_best"] = False
    assert headline_text(read(result)).endswith("of its speed."), "what it gains in throughput says nothing here"


def test_a_search_without_a_sequence_is_judged_by_its_verdict(improved: dict[str, Any]) -> None:
    assert search_sentence(read(improved)).startswith("A search of 473 s: improved: 1.500 [1.400, 1.600] times")


def test_a_result_without_a_sequence_says_nothing_of_it(improved: dict[str, Any]) -> None:
    text = result_text(read(improved), width=120)
    assert "gain of the search" not in text and result_text(read({**improved, "sequence": None}), width=120) == text


@pytest.mark.parametrize("is_best", [False, True])
def test_the_sequence_is_a_row_between_baseline_and_winner(improved: dict[str, Any], is_best: bool) -> None:
    improved["sequence"] = sequence(improved["best"], is_best=is_best, gain=None if is_best else CONFIRMED)
    names = [line.split()[0] for line in result_text(read(improved), width=140).splitlines() if line.split()]
    table = [name for name in names if name in ("O3", "AS-2", "best")]
    assert table == (["O3", "best"] if is_best else ["O3", "AS-2", "best"])


def test_a_sequence_timed_beside_the_winner_has_no_compile_time_or_energy_of_the_search(
    improved: dict[str, Any],
) -> None:
    improved["baseline"] |= {"energy_j": 1.5}
    readings = {"compile_s": 8.25, "energy_j": 0.125, "power_w": {"median": 21.5}, "temperature_c": {"max": 61.5}}
    improved["sequence"] = sequence(improved["best"], gain=CONFIRMED, **readings)
    text = result_text(read(improved), width=160)
    [row] = [line for line in text.splitlines() if line.startswith("AS-2 ")]
    assert " ".join(row.split()) == "AS-2 29.09 [29.06, 29.12] 34.38 1.200 [1.100, 1.300] – – 46.9 2 – – –"
    assert "(AS-2 as the search built it, so without compile time)" in " ".join(text.split())
    assert "8.25" not in result_html(read(improved))


def test_a_sequence_not_timed_beside_the_winner_stands_with_the_levels_of_the_search(improved: dict[str, Any]) -> None:
    improved["sequence"] = sequence(improved["best"], gain={"ratio": 1.25, "interval": None}, compile_s=10.7)
    text = result_text(read(improved), width=140)
    title = "\nbest sequence and other levels, from the search (one compile and one process each):\n"
    beside, apart = text.split(title)
    assert "\nAS-2 " not in beside and apart.index("\nAS-2 ") < apart.index("\nO0 ")
    # Its compile ratio is that of the compile seconds of one table: both are of the search.
    [row] = [line.split() for line in text.splitlines() if line.startswith("AS-2 ")]
    searched = next(level for level in improved["baselines"] if level["name"] == "O3")
    assert row[-4:-2] == ["10.7", f"{searched['compile_s'] / 10.7:.2f}"]
    confirmed, searched_plot = result_html(read(improved)).split("<svg")[1:]
    assert "AS-2" not in confirmed.split("</svg>")[0] and "AS-2" in searched_plot
