"""The bound on errors by which a budget of classes is kept is the widest next to one that is not kept."""

import pytest

from passsearch.core import Failure
from passsearch.search.class_bound import MOST_HALVINGS, NARROWEST, Bounded, widest_bound


@pytest.mark.parametrize("edge", [0.0012, 0.03, 0.4])
def test_the_bound_is_next_to_the_edge_of_the_budget(edge: float) -> None:
    tried: list[float] = []

    def is_within(choice: float) -> bool:
        tried.append(choice)
        return choice <= edge

    found = widest_bound(1e-3, 0.5, decide=lambda bound: bound, is_within=is_within)
    assert isinstance(found, Bounded) and found.choice == found.bound <= edge
    assert found.bound * NARROWEST * (500 ** (2.0**-MOST_HALVINGS)) >= edge * 0.99
    assert len(tried) <= MOST_HALVINGS


def test_all_or_nothing() -> None:
    everything = widest_bound(1e-3, 0.5, decide=lambda bound: bound, is_within=lambda _: True)
    assert isinstance(everything, Bounded) and everything.bound == 0.5
    nothing = widest_bound(1e-3, 0.5, decide=lambda bound: bound, is_within=lambda _: False)
    assert nothing == Bounded(1e-3, 1e-3)
    failure = Failure("infra", "measure", "", "gone")
    assert widest_bound(1e-3, 0.5, decide=lambda bound: bound, is_within=lambda _: failure) == failure
