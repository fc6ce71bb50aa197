"""The state graph of a search: what was explored, what of it was measured, and the way to the winner."""

from collections.abc import Mapping

from passsearch.core import Pipeline
from passsearch.errors import PassSearchError
from passsearch.report.charts.chart import ACCENT, BASELINE, BEST, OTHER, Axis, Chart, Point, Series
from passsearch.report.run_record import AppliedPass, RunRecord
from passsearch.report.state_graph import state_columns, state_heights
from passsearch.results import RunResult

FAINT = "#9aa5b566"
"""Colour of the many edges, half transparent."""


def space_chart(record: RunRecord) -> Chart:
    """Return the states by the fewest passes that lead to them; empty without a log."""
    edges = [edge for edge in record.edges if edge.target and edge.target != edge.source]
    places = _places(record.root, edges)
    measured = {str(row.state) for row in record.result.trials}
    best = str(record.result.best.state)
    reached_by = {edge.target: edge.step for edge in reversed(edges)}
    groups: dict[str, list[Point]] = {"explored": [], "measured": [], "network": [], "best": []}
    for state, place in places.items():
        group = "best" if state == best else "network" if state == record.root else ""
        group = group or ("measured" if state in measured else "explored")
        groups[group].append(Point(*place, _state_text(state, reached_by)))
    way = _winner_edges(record, edges)
    series = (
        Series("", _segments(edges, places), kind="segments", colour=FAINT),
        Series("", _segments(way, places), kind="segments", colour=BEST),
        Series("state", tuple(groups["explored"]), colour=OTHER),
        Series("measured state", tuple(groups["measured"]), colour=ACCENT),
        Series("the network", tuple(groups["network"]), colour=BASELINE),
        Series("best", tuple(groups["best"]), colour=BEST),
    )
    title = f"State graph: {len(places)} states and {len(edges)} edges between them"
    return Chart(title, Axis("fewest passes that lead to a state"), Axis("", is_hidden=True), series)


def _places(root: str, edges: list[AppliedPass]) -> dict[str, tuple[float, float]]:
    """Return x and y of every state that is reached from the network."""
    states = list(dict.fromkeys([root, *(state for edge in edges for state in (edge.source, edge.target) if state)]))
    if not root:
        return {}
    numbers = {state: number for number, state in enumerate(states)}
    table = [(numbers[edge.source], numbers[edge.target], 0) for edge in edges if edge.target]
    columns = state_columns(len(states), table)
    reached = {number for column in columns for number in column}
    heights = state_heights(columns, [edge for edge in table if edge[0] in reached and edge[1] in reached])
    return {
        states[number]: (float(distance), -heights[number])
        for distance, column in enumerate(columns)
        for number in column
    }


def _segments(edges: list[AppliedPass], places: Mapping[str, tuple[float, float]]) -> tuple[Point, ...]:
    return tuple(
        Point(*places[state])
        for edge in edges
        if edge.target and edge.source in places and edge.target in places
        for state in (edge.source, edge.target)
    )


def _winner_edges(record: RunRecord, edges: list[AppliedPass]) -> list[AppliedPass]:
    """Return the edges of the winner's pipeline."""
    targets = {(edge.source, edge.step): edge for edge in edges}
    way, state = [], record.root
    for step in _steps(record.result):
        edge = targets.get((state, step))
        if edge and edge.target:
            way.append(edge)
            state = edge.target
    return way


def _steps(result: RunResult) -> list[str]:
    try:
        return [str(step) for step in Pipeline.parse(result.best.pipeline).passes]
    except PassSearchError:
        return []


def _state_text(state: str, reached_by: Mapping[str | None, str]) -> str:
    return f"{state}, first reached by {reached_by[state]}" if state in reached_by else f"{state}, the network"
