"""The pass that made outputs wrong, found by few builds."""

from collections.abc import Collection
from pathlib import Path

import pytest

from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline
from passsearch.evaluate import Built
from passsearch.search.bisection import FaultyPasses, bisect_wrong_result

PASSES = tuple(PassSpec.of(f"P{number}") for number in range(8))


class Prefixes:
    """States 0 to 8 of a pipeline; outputs are wrong from one of them on, and some states do not build."""

    def __init__(self, broken_from: int, unbuildable: Collection[int] = ()) -> None:
        self._broken_from, self._unbuildable = broken_from, unbuildable
        self.builds: list[str] = []

    def build(self, state: str, candidate: Candidate) -> Built | Failure:
        self.builds.append(state)
        if int(state) in self._unbuildable:
            return Failure("compile_error", "build", "", "it does not")
        if int(state) >= self._broken_from:
            return Failure("wrong_result", "measure", "", "outputs deviate")
        return Built(state, candidate.build, state, Path(state), state, state, 1.0, 0, 0, 0)


def faulty(prefixes: Prefixes) -> tuple[str, str, str] | None:
    states = [str(number) for number in range(len(PASSES) + 1)]
    result = bisect_wrong_result(Candidate(Pipeline(PASSES), BuildOptions()), states, prefixes.build)
    return result and (
        result.reproducer_folder.removeprefix("reproducers/").rpartition("-")[0],
        result.before,
        result.after,
    )


@pytest.mark.parametrize("broken_from", range(1, 9))
def test_the_first_pass_that_breaks_is_found_by_bisection(broken_from: int) -> None:
    prefixes = Prefixes(broken_from)
    assert faulty(prefixes) == (f"P{broken_from - 1}", str(broken_from - 1), str(broken_from))
    assert len(prefixes.builds) <= 2 + 3, "both ends, and log2 of eight in between"


def test_states_that_do_not_build_are_passed_over() -> None:
    assert faulty(Prefixes(5, unbuildable=(3, 4))) == ("P2-P3-P4", "2", "5"), "any of the three may be it"


def test_a_build_that_is_wrong_before_any_pass_blames_no_pass() -> None:
    assert faulty(Prefixes(0)) is None


def test_the_same_passes_with_other_arguments_have_another_folder() -> None:
    def folder(text: str, before: str) -> str:
        steps = Pipeline.parse(text).passes
        failure = Failure("wrong_result", "measure", "", "outputs deviate")
        return FaultyPasses(Candidate(Pipeline(steps)), steps, before, "2", failure).reproducer_folder

    half, full = 'ToMixedPrecision{out_dtype="float16"}', 'ToMixedPrecision{out_dtype="float32"}'
    assert len({folder(half, "0"), folder(full, "0"), folder(half, "1")}) == 3
    assert len(folder(",".join(f"APassWithALongName{number}" for number in range(30)), "0")) < 120
