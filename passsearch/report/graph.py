"""A state graph drawn as SVG, a column for every number of passes, without a plotting library."""

from collections.abc import Mapping
from html import escape
from typing import Any

COLUMN, ROW, MARGIN, LEGEND = 150, 26, 50, 18
PALETTE = ("#1b6ca8", "#c8553d", "#1a7f5a", "#8a5fb0", "#b8860b", "#3a9ca8", "#a83279", "#6b7a2f", "#555f6e", "#d07b2a")
SWEEPS = 6
"""Passes over the columns that move every state to the middle of its neighbours, so that fewer edges cross."""


def space_picture(document: Mapping[str, Any]) -> str:
    """The states by the fewest passes that reach them; an edge has the colour of its pass."""
    edges = _edges(document["graph"]["table"])
    columns = _columns(len(document["graph"]["states"]), edges)
    heights = _heights(columns, edges)
    places = {
        state: (MARGIN + COLUMN * number, MARGIN + ROW * (heights[state] + 0.5))
        for number, column in enumerate(columns)
        for state in column
    }
    steps = document["graph"]["steps"]
    used = sorted({column for _, _, column in edges})
    colours = {column: PALETTE[place % len(PALETTE)] for place, column in enumerate(used)}
    width = max(2 * MARGIN + COLUMN * (len(columns) - 1), 520)
    bottom = MARGIN + ROW * max(len(column) for column in columns) + 20
    height = bottom + LEGEND * len(used) + 20
    title = f"{document['model']['name']}: {len(places)} states, {'closed' if document['closed'] else 'not closed'}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN}" y="24">{escape(title)}; from left to right the fewest passes that reach a state</text>',
        *(_arrow(places[source], places[target], colour=colours[column]) for source, target, column in edges),
        *(_node(state, x=x, y=y) for state, (x, y) in places.items()),
        *(_entry(steps[column], colours[column], y=bottom + LEGEND * place) for place, column in enumerate(used)),
    ]
    return "\n".join([*parts, "</svg>"])


def _edges(table: list[list[int]]) -> list[tuple[int, int, int]]:
    """Source, target and pass of what changes something."""
    return [
        (row, target, column)
        for row, targets in enumerate(table)
        for column, target in enumerate(targets)
        if target >= 0 and target != row
    ]


def _columns(states: int, edges: list[tuple[int, int, int]]) -> list[list[int]]:
    after: dict[int, list[int]] = {state: [] for state in range(states)}
    for source, target, _ in edges:
        after[source].append(target)
    columns, seen = [[0]], {0}
    while columns[-1]:
        found = list(dict.fromkeys(target for state in columns[-1] for target in after[state] if target not in seen))
        seen |= set(found)
        columns.append(found)
    return columns[:-1]


def _heights(columns: list[list[int]], edges: list[tuple[int, int, int]]) -> dict[int, float]:
    """A row for every state: the mean of its neighbours' decides the order (Sugiyama's barycentres)."""
    neighbours: dict[int, list[int]] = {state: [] for column in columns for state in column}
    for source, target, _ in edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    tallest = max(map(len, columns))
    heights = {state: float(row) for column in columns for row, state in enumerate(column)}
    for _ in range(SWEEPS):
        for column in columns:
            middle = {
                state: sum(heights[each] for each in neighbours[state]) / max(len(neighbours[state]), 1)
                for state in column
            }
            step = tallest / len(column)
            for row, state in enumerate(sorted(column, key=lambda state: middle[state])):
                heights[state] = (row + 0.5) * step - 0.5
    return heights


def _arrow(source: tuple[float, float], target: tuple[float, float], *, colour: str) -> str:
    (x1, y1), (x2, y2) = source, target
    bend = 0.0 if x2 > x1 else 40.0
    path = f"M{x1} {y1:.0f}C{x1 + 50} {y1 - bend:.0f} {x2 - 50} {y2 - bend:.0f} {x2} {y2:.0f}"
    return f'<path d="{path}" stroke="{colour}" fill="none" opacity="0.55"/>'


def _node(state: int, *, x: float, y: float) -> str:
    fill = "#222" if state == 0 else "white"
    ink = "white" if state == 0 else "#222"
    return (
        f'<circle cx="{x}" cy="{y:.0f}" r="10" fill="{fill}" stroke="#222"/>'
        f'<text x="{x}" y="{y + 4:.0f}" text-anchor="middle" font-size="10" fill="{ink}">{state}</text>'
    )


def _entry(step: str, colour: str, *, y: float) -> str:
    line = f'<path d="M{MARGIN} {y - 4}h26" stroke="{colour}" stroke-width="3"/>'
    return f'{line}<text x="{MARGIN + 34}" y="{y}">{escape(step)}</text>'
