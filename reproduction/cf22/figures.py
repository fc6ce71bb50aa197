"""Draws figures 2a, 2b and 3 of the paper from the results of ``run.py``; needs matplotlib."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

SELECTIONS = ("BL", "AS-0", "AS-1", "AS-best", "fastest", "PO-0", "PO-1", "PO-2", "PO-3")
"""The selections, in the order of the bars and of the rows of the tables."""

Bar: TypeAlias = tuple[float, float, float]
"""Height of a bar, and the ends of its interval."""


def draw_figures(documents: Mapping[str, Any], claims: Mapping[str, Mapping[str, float]], folder: Path) -> None:
    """Draw figures 2a, 2b and 3: throughput, latency and compile time by selection, as multiples of -O3's.

    Args:
        documents: Results by network.
        claims: The paper's claims for its best selection by kind and network, as gains or reductions.
        folder: Folder for the figures.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "passsearch"  # equal data give equal files
    gains, reductions = claims["throughput_gain"], claims["compile_time_reduction"]
    figures: dict[str, tuple[str, Callable[[Any, Any], Bar], dict[str, float]]] = {
        "figure-2a": (
            "throughput / -O3",
            lambda row, _: bar(row["ratio"]),
            {name: 1 + gain for name, gain in gains.items()},
        ),
        "figure-2b": (
            "latency / -O3",
            lambda row, _: inverse(bar(row["ratio"])),
            {name: 1 / (1 + gain) for name, gain in gains.items()},
        ),
        "figure-3": (
            "compile time / -O3",
            lambda row, o3: (row["compile_s"] / o3["compile_s"],) * 3,
            {name: 1 - reduction for name, reduction in reductions.items()},
        ),
    }
    compared = {name: document["compare"]["rows"] for name, document in documents.items() if "compare" in document}
    for name, (label, value, paper) in figures.items():
        bars = {
            network: {
                selection: None if "failure" in row else value(row, rows["O3"])
                for selection, row in rows.items()
                if selection in SELECTIONS
            }
            for network, rows in compared.items()
        }
        draw_bars(bars, paper, label=label, file=folder / f"{name}.svg")


def bar(ratio: Mapping[str, Any]) -> Bar:
    """Return the bar of a ratio; without an interval, both ends are the height."""
    low, high = ratio.get("interval") or (None, None)
    value = float(ratio["ratio"])
    return value, value if low is None else float(low), value if high is None else float(high)


def inverse(ratio: Bar) -> Bar:
    """Return the bar of the inverse ratio."""
    value, low, high = ratio
    return 1 / value, 1 / high, 1 / low


def draw_bars(
    bars: Mapping[str, Mapping[str, Bar | None]], paper: Mapping[str, float], *, label: str, file: Path
) -> None:
    """Draw one group of bars per network, one bar with its interval per selection, and a cross for a failure.

    A diamond over the bar of ``AS-best`` is the paper's value.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(figsize=(10, 3.8))
    width = 0.8 / len(SELECTIONS)
    for number, selection in enumerate(SELECTIONS):
        by_position = {
            index + (number - len(SELECTIONS) / 2 + 0.5) * width: group[selection]
            for index, group in enumerate(bars.values())
            if selection in group
        }
        intervals = {position: value for position, value in by_position.items() if value}
        heights = [value for value, _, _ in intervals.values()]
        ends = [[v - low for v, low, _ in intervals.values()], [high - v for v, _, high in intervals.values()]]
        axes.bar(list(intervals), heights, width, yerr=ends, color=f"C{number}", error_kw={"linewidth": 0.8})
        failures = [position for position, value in by_position.items() if value is None]
        bottom = axes.get_xaxis_transform()
        axes.plot(failures, [0.03] * len(failures), "x", color=f"C{number}", markersize=5, transform=bottom)
    place = (SELECTIONS.index("AS-best") - len(SELECTIONS) / 2 + 0.5) * width
    claimed = {index + place: paper[network] for index, network in enumerate(bars) if paper.get(network)}
    diamond = {"marker": "D", "color": "black", "linestyle": "", "markersize": 5}
    axes.plot(list(claimed), list(claimed.values()), **diamond)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(label)
    axes.set_xticks(range(len(bars)), [name.replace("_", "\n") for name in bars], fontsize=8)
    patches: list[Any] = [Patch(color=f"C{number}", label=selection) for number, selection in enumerate(SELECTIONS)]
    patches.append(Line2D([], [], label="paper's AS-best", **diamond))
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    axes.legend(handles=patches, ncols=len(patches), fontsize=7, **above)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
