"""Single passes, arguments and settings of one candidate in place of those of another."""

from pathlib import Path

import pytest

from passsearch.core import BuildOptions, Candidate, CheckInputs, Pipeline
from passsearch.engines import EnginePlan, EngineTiming
from passsearch.results import Exchange
from passsearch.studies import RegressionFindings, candidate_exchanges, setting_exchanges


def exchanges(before: str, after: str) -> dict[str, str]:
    pair = (Candidate(Pipeline.parse(text)) for text in (before, after))
    return {each.text: str(each.candidate.pipeline) for each in candidate_exchanges(*pair)}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("A,B,C", "A,B,C", {}),
        ("A,B,C", "A,C", {"with B": "A,B,C"}),
        ("A,C", "A,B,C", {"without B": "A,C"}),
        ("A,B{n=1},C", "A,B{n=2},C", {"B{n=1} in place of B{n=2}": "A,B{n=1},C"}),
        (
            "A,B{m=1,n=1}",
            "A,B{m=2}",
            {
                "B{m=1,n=1} in place of B{m=2}": "A,B{m=1,n=1}",
                "B: m=1 in place of 2": "A,B{m=1}",
                "B: n=1 in place of the default": "A,B{m=2,n=1}",
            },
        ),
        (
            "A,B,C",
            "A,X",
            {
                "without X": "A",
                "with B": "A,X,B",
                "with C": "A,X,C",
                "B, C in place of X": "A,B,C",
            },
        ),
        ("A,B,A,C", "A,B,C", {"with A": "A,B,A,C"}),
        ("A,B,C", "A,B,A,C", {"without A": "A,B,C"}),
        ("A,B,C", "B,A,C", {"B later": "A,B,C", "A earlier": "A,B,C", "without B": "A,C", "without A": "B,C"}),
    ],
)
def test_one_thing_is_exchanged_at_a_time(before: str, after: str, expected: dict[str, str]) -> None:
    found = exchanges(before, after)
    # Of two texts that lead to one pipeline, one is left.
    assert found.items() <= expected.items()
    assert {*found.values()} == {*expected.values()} or (before, after) == ("A,B,C", "B,A,C")


def test_a_pass_that_is_missing_once_is_added_and_not_moved() -> None:
    found = exchanges("FoldConstant,FuseOps,FoldConstant,FuseTIR", "FoldConstant,FuseOps,FuseTIR")
    assert found == {"with FoldConstant": "FoldConstant,FuseOps,FoldConstant,FuseTIR"}


def test_an_option_of_the_build_is_exchanged_alone() -> None:
    before = Candidate(build=BuildOptions(opt_level=3, disabled=("FuseOps",)))
    found = {each.text: each for each in candidate_exchanges(before, Candidate(build=BuildOptions(opt_level=1)))}
    assert {*found} == {
        "opt_level of the build 3 in place of 1",
        "disabled of the build FuseOps in place of none",
    }
    assert found["opt_level of the build 3 in place of 1"].candidate.build == BuildOptions(opt_level=3)


def test_a_setting_that_one_side_lacks_returns_to_its_default() -> None:
    assert dict(setting_exchanges({"a": 1, "c": 2}, {"a": 1, "b": 2})) == {
        "c=2 in place of the default": {"a": 1, "b": 2, "c": 2},
        "b as by default in place of 2": {"a": 1},
    }


def exchange(text: str, explained: float, size: int = 1) -> Exchange:
    return Exchange(text=text, kind="pass", size=size, ratio=None, explained=explained, certain=True, failure="")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([exchange("with LongNameOfOnePass", 0.95), exchange("A, B", 1.0, size=2)], "with LongNameOfOnePass"),
        ([exchange("with A", 0.5), exchange("A, B in place of C", 1.0, size=2)], "A, B in place of C"),
        ([exchange("with A", 0.91), exchange("with LongName", 1.0)], "with LongName"),
        ([exchange("with A", 0.95), exchange("A, B in place of C", 1.6, size=2)], "with A"),
        ([exchange("with A", 0.1)], None),
    ],
)
def test_one_pass_that_explains_the_slowdown_is_named_before_several(
    rows: list[Exchange], expected: str | None, tmp_path: Path
) -> None:
    timing = EngineTiming([], references=[], types={}, plan=EnginePlan(), folder=tmp_path, inputs=CheckInputs({}))
    assert RegressionFindings(timing, exchanges=tuple(rows)).named["exchange"] == expected
