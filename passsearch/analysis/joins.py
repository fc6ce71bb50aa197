"""Joins of values along their channels, as in densely connected networks."""

from collections.abc import Iterator, Mapping

from passsearch.analysis.graph import Dataflow, make_feature, unwrap_layouts
from passsearch.analysis.kinds import CONVOLUTIONS, JOINS
from passsearch.core import Feature


def find_features(flow: Dataflow) -> Mapping[str, Feature]:
    """Return the features of joins by name."""
    return {"dense_join": make_feature(_dense_joins(flow))}


def _dense_joins(flow: Dataflow) -> Iterator[int]:
    """Yield joins of all that an earlier join has, with a further value that is computed from it by convolutions."""
    joined: dict[int, frozenset[int]] = {}
    for join in flow.of_kind(JOINS):
        parts = [unwrap_layouts(flow, source) for source in flow.arguments(join.index)]
        # A join of a join has the parts of both: exporters write one long list or nested joins.
        whole = frozenset(part for each in parts for part in joined.get(each, frozenset({each})))
        others = (earlier for earlier, had in joined.items() if had < whole)
        if len(parts) > 1 and any(_computes(flow, earlier, whole - joined[earlier]) for earlier in others):
            yield join.index
        joined[join.index] = whole


def _computes(flow: Dataflow, join: int, added: frozenset[int]) -> bool:
    """Return whether convolutions compute a value from a join, with no other join between."""
    stack, seen = list(added), set(added)
    found = False
    while stack:
        index = stack.pop()
        found = found or flow.kind(index) in CONVOLUTIONS
        for source in flow.arguments(index):
            if source == join:
                return found
            if source > join and source not in seen and flow.kind(source) not in JOINS:
                seen.add(source)
                stack.append(source)
    return False
