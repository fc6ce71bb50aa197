"""Single passes, arguments and settings of one candidate in place of those of another."""

import pytest

from passsearch.core import BuildOptions, Candidate, Pipeline
from passsearch.studies import candidate_exchanges, setting_exchanges


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
        ("A,B,C", "B,A,C", {"B later": "A,B,C", "A earlier": "A,B,C", "without B": "A,C", "without A": "B,C"}),
    ],
)
def test_one_thing_is_exchanged_at_a_time(before: str, after: str, expected: dict[str, str]) -> None:
    found = exchanges(before, after)
    # Of two texts that lead to one pipeline, one is left.
    assert found.items() <= expected.items()
    assert {*found.values()} == {*expected.values()} or (before, after) == ("A,B,C", "B,A,C")


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
