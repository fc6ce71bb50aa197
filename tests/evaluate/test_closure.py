"""Properties of a table of edges, against counting by hand and by brute force."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passsearch.core import Failure, PassSpec
from passsearch.evaluate import Edge, StateGraph
from passsearch.evaluate.closure import FAILED, UNTRIED, Closure

A, B, C = (PassSpec.of(name) for name in "ABC")


def closure(table: list[list[int]]) -> Closure:
    states = tuple(f"s{number}" for number in range(len(table)))
    steps = tuple("ABCDE"[: len(table[0])])
    failures = (Failure("crash", "apply", "A", "died"),)
    return Closure(states, steps, np.array(table, "int32"), np.ones((len(states), len(steps))), failures)


@st.composite
def tables(draw: st.DrawFn, *, untried: bool = False) -> Closure:
    """Any table whose states can all be reached, closed unless ``untried``."""
    states, steps = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    target = st.one_of(st.sampled_from([FAILED, UNTRIED] if untried else [FAILED]), st.integers(0, states - 1))
    rows = draw(st.lists(st.lists(target, min_size=steps, max_size=steps), min_size=states, max_size=states))
    return closure(rows).within(range(steps))


def follow(found: Closure, sequence: tuple[int, ...], start: int = 0) -> int | None:
    """Where a sequence leads; ``None`` if a pass of it fails."""
    state = start
    for column in sequence:
        state = int(found.table[state, column])
        if state < 0:
            return None
    return state


@given(tables())
def test_sequences_are_counted_as_brute_force_counts_them(found: Closure) -> None:
    counted = found.sequences(4)
    for length, (all_, valid) in enumerate(counted):
        sequences = list(product(range(len(found.steps)), repeat=length))
        assert all_ == len(sequences)
        assert valid == sum(follow(found, each) is not None for each in sequences)


@given(tables())
def test_pairs_said_to_commute_do_so_in_every_sequence(found: Closure) -> None:
    numbers = {step: column for column, step in enumerate(found.steps)}

    def ends(one: str, other: str) -> list[tuple[int | None, int | None]]:
        orders = ((numbers[one], numbers[other]), (numbers[other], numbers[one]))
        return [(follow(found, orders[0], s), follow(found, orders[1], s)) for s in range(len(found.states))]

    together, apart = found.commuting()
    for pair in together:
        assert all(left == right for left, right in ends(*pair))
    for pair, (equal, different) in apart.items():
        assert different == sum(left != right for left, right in ends(*pair)) > 0
        assert equal == sum(left == right is not None for left, right in ends(*pair))


@given(tables())
def test_after_a_barrier_the_other_pass_never_acts(found: Closure) -> None:
    for first, second in [(found.steps.index(one), found.steps.index(other)) for one, other in found.barriers()]:
        for state in range(len(found.states)):
            after = follow(found, (first,), state)
            if after is None or after == state:
                continue
            for between in product(range(len(found.steps)), repeat=3):
                ends = [follow(found, between[:length], after) for length in range(4)]
                assert all(end is None or found.table[end, second] in (end, *range(FAILED, -1)) for end in ends)


@given(tables())
def test_the_cheapest_way_leads_where_it_says(found: Closure) -> None:
    depths = found.graph.depths()
    for number, state in enumerate(found.states):
        pipeline, seconds = found.graph.cheapest(state)
        assert follow(found, tuple(found.passes.index(step) for step in pipeline.passes)) == number
        assert seconds == len(pipeline) == depths[state]  # every pass takes a second here


@given(tables())
def test_a_closure_is_read_as_it_was_written(found: Closure) -> None:
    again = Closure.from_json(found.to_json())
    assert again.states == found.states and again.steps == found.steps and again.failures == found.failures
    assert (again.table == found.table).all() and (again.seconds == found.seconds).all()


@pytest.mark.parametrize("edge", [2, -3])
def test_an_edge_that_leads_to_nothing_is_refused(edge: int) -> None:
    document = closure([[1, 0], [0, 1]]).to_json()
    document["table"][0][0] = edge
    with pytest.raises(ValueError, match="leads to nothing"):
        Closure.from_json(document)


def test_passes_are_told_by_what_they_do() -> None:
    #            A  B  C
    found = closure([[1, 0, 0], [1, 2, 1], [2, 2, 2]])
    assert found.no_op_passes() == ["C"]
    assert found.enabling() == {("A", "B"): 1}
    assert found.disabling() == {}
    assert found.barriers() == [("B", "A")]
    assert found.not_idempotent() == {}
    assert found.commuting() == ([], {("A", "B"): (2, 1)})
    assert found.depth == 2


@given(tables(untried=True))
def test_a_part_that_closes_says_the_same_of_its_states(found: Closure) -> None:
    part = found.closed_part()
    assert part.closed and set(part.states) <= set(found.states) and part.closed_part().steps == part.steps
    for step in part.passes:
        for state in part.states:
            assert part.graph.edge(state, step) == found.graph.edge(state, step) is not None


def test_what_is_not_closed_has_a_part_that_is() -> None:
    found = closure([[1, 2, 0], [1, 1, 1], [UNTRIED, UNTRIED, UNTRIED]])
    assert not found.closed
    part = found.closed_part()
    assert part.closed and part.steps == ("A", "C") and part.states == ("s0", "s1")


def test_a_graph_becomes_a_table_of_what_the_passes_reach() -> None:
    graph = StateGraph("root")
    graph.add("root", A, edge=Edge("left", 1.0))
    graph.add("root", B, edge=Edge(Failure("crash", "apply", "B", "died"), 0.5))
    graph.add("root", C, edge=Edge("elsewhere", 1.0))
    graph.add("left", A, edge=Edge("left", 0.1))
    found = Closure.of(graph, [A, B])
    assert found.states == ("root", "left")
    assert found.table.tolist() == [[1, FAILED], [1, UNTRIED]]
    assert found.failures[0].kind == "crash" and not found.closed
    assert not graph.closed([A, B]) and graph.first_untried([A, B]) == "left"
    assert graph.closed([A])
    for kind in ("infra", "unstable"):  # a full disk, a state that was not reached again
        graph.add("left", B, edge=Edge(Failure(kind, "apply", "B", "not applied"), 0.1))
        assert not graph.closed([A, B]) and not Closure.of(graph, [A, B]).closed
