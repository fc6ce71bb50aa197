"""A drawing of a state graph as SVG, one column per number of passes, without a plotting library."""

from collections.abc import Sequence

from passsearch.errors import UserError
from passsearch.report.formatting import counted, html_text
from passsearch.results import ExploredSpace

COLUMN_WIDTH, ROW_HEIGHT, MARGIN, LEGEND_HEIGHT = 150, 26, 50, 18
PALETTE = ("#1b6ca8", "#c8553d", "#1a7f5a", "#8a5fb0", "#b8860b", "#3a9ca8", "#a83279", "#6b7a2f", "#555f6e", "#d07b2a")
SWEEPS = 6
"""Sweeps over all columns; every sweep moves states towards their neighbours, so that fewer edges cross."""


def state_graph_svg(space: ExploredSpace) -> str:
    """Return the drawing of an explored space; the colour of an edge says which pass it applies.

    Args:
        space: The space.

    Raises:
        UserError: It has no graph.
    """
    graph = space.graph
    if graph is None:
        raise UserError("The space has no graph to draw; read the file that `passsearch explore --out` writes.")
    edges = _edges(graph.table)
    columns = state_columns(len(graph.states), edges)
    positions = _positions(columns, edges)
    step_numbers = sorted({step for _, _, step in edges})
    colours = {step: PALETTE[index % len(PALETTE)] for index, step in enumerate(step_numbers)}
    # At least 520 pixels, so that the title fits above a graph of one or two columns.
    width = max(2 * MARGIN + COLUMN_WIDTH * (len(columns) - 1), 520)
    legend_y = MARGIN + ROW_HEIGHT * max(len(column) for column in columns) + 20
    height = legend_y + LEGEND_HEIGHT * len(step_numbers) + 20
    title = f"{space.model.name}: {counted(len(positions), 'state')}, {'closed' if space.closed else 'not closed'}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{html_text(title)}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN}" y="24">{html_text(title)}; column: fewest passes that lead to a state</text>',
        *(_edge_svg(positions[source], positions[target], colour=colours[step]) for source, target, step in edges),
        *(_state_svg(state, x=x, y=y) for state, (x, y) in positions.items()),
        *(
            _legend_svg(graph.steps[step], colours[step], y=legend_y + LEGEND_HEIGHT * index)
            for index, step in enumerate(step_numbers)
        ),
    ]
    return "\n".join([*parts, "</svg>"])


def _edges(table: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Return source, target and step of every edge between two states; self-loops would only clutter the drawing."""
    return [
        (source, target, step)
        for source, targets in enumerate(table)
        for step, target in enumerate(targets)
        if target >= 0 and target != source
    ]


def state_columns(states: int, edges: list[tuple[int, int, int]]) -> list[list[int]]:
    """Return the states by their distance from the network, found breadth-first."""
    successors: dict[int, list[int]] = {state: [] for state in range(states)}
    for source, target, _ in edges:
        successors[source].append(target)
    columns, visited = [[0]], {0}
    while columns[-1]:
        targets = [target for state in columns[-1] for target in successors[state] if target not in visited]
        columns.append(list(dict.fromkeys(targets)))
        visited |= set(targets)
    return columns[:-1]


def _positions(columns: list[list[int]], edges: list[tuple[int, int, int]]) -> dict[int, tuple[float, float]]:
    """Return x and y in pixels of every state."""
    heights = state_heights(columns, edges)
    return {
        state: (MARGIN + COLUMN_WIDTH * index, MARGIN + ROW_HEIGHT * (heights[state] + 0.5))
        for index, column in enumerate(columns)
        for state in column
    }


def state_heights(columns: list[list[int]], edges: list[tuple[int, int, int]]) -> dict[int, float]:
    """Return the row of every state, ordered so that few edges cross (Sugiyama's barycentre method)."""
    neighbours: dict[int, list[int]] = {state: [] for column in columns for state in column}
    for source, target, _ in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    tallest = max(map(len, columns))
    heights = {state: float(row) for column in columns for row, state in enumerate(column)}
    for _ in range(SWEEPS):
        for column in columns:
            barycentres = {
                state: sum(heights[neighbour] for neighbour in neighbours[state]) / max(len(neighbours[state]), 1)
                for state in column
            }
            # Short columns are stretched to the height of the tallest one; else all their edges run to the top.
            spacing = tallest / len(column)
            for row, state in enumerate(sorted(column, key=lambda state: barycentres[state])):
                heights[state] = (row + 0.5) * spacing - 0.5
    return heights


def _edge_svg(source: tuple[float, float], target: tuple[float, float], *, colour: str) -> str:
    (x1, y1), (x2, y2) = source, target
    # An edge back to the left, or within a column, is bent upwards so that it does not cover the edges to the right.
    bend = 0.0 if x2 > x1 else 40.0
    path = f"M{x1} {y1:.0f}C{x1 + 50} {y1 - bend:.0f} {x2 - 50} {y2 - bend:.0f} {x2} {y2:.0f}"
    return f'<path d="{path}" stroke="{colour}" fill="none" opacity="0.55"/>'


def _state_svg(state: int, *, x: float, y: float) -> str:
    """Return the circle of a state; the network itself (state 0) is black."""
    fill = "#222" if state == 0 else "white"
    ink = "white" if state == 0 else "#222"
    return (
        f'<circle cx="{x}" cy="{y:.0f}" r="10" fill="{fill}" stroke="#222"/>'
        f'<text x="{x}" y="{y + 4:.0f}" text-anchor="middle" font-size="10" fill="{ink}">{state}</text>'
    )


def _legend_svg(step: str, colour: str, *, y: float) -> str:
    line = f'<path d="M{MARGIN} {y - 4}h26" stroke="{colour}" stroke-width="3"/>'
    return f'{line}<text x="{MARGIN + 34}" y="{y}">{html_text(step)}</text>'
