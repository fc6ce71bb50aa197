"""Finds pairs whose order depends on the compiler: ``python benchmarks/rankings.py [FILE.json …] [--draw FILE.svg]``.

The files are those of ``passsearch bench MODEL --json`` or ``benchmarks/against_engines.py``; by default all in
``benchmarks/results/engines``. Two networks change their order if one is certainly faster with one engine and certainly
slower with another; two engines do if one is certainly faster on one network or batch size and certainly slower on
another. Everything else is a tie or the same order: nothing is read from an interval that contains 1. All intervals
together hold at 95 % (Bonferroni), or those of each pair by themselves with ``--by-pair``.

Engines of one file ran in turns, so they are compared process by process. Networks ran one after another, so their
times are compared by Welch's interval. Processes in which others took more than 10 % of the cores are left out.
"""

import argparse
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Any, TypeAlias

from scipy import stats

from passsearch.measure import mean_interval

RESULTS = Path(__file__).parent / "results" / "engines"
LEVEL, MOST_FOREIGN = 0.95, 0.1


@dataclass(frozen=True)
class Cell:
    """The times of one engine on one network at one batch size.

    Attributes:
        network: Name of the network.
        batch: Batch size.
        engine: Name of the engine.
        device: The machine, as text. Only cells of one machine are compared.
        seconds: Seconds of an item by process, the fastest inference in each; ``nan`` for a disturbed process.
    """

    network: str
    batch: int
    engine: str
    device: str
    seconds: tuple[float, ...]

    @property
    def logs(self) -> list[float]:
        """Logarithms of the seconds of undisturbed processes."""
        return [math.log(value) for value in self.seconds if not math.isnan(value)]

    @property
    def workload(self) -> str:
        """Network and batch size as text, in the form of ``zoo:NAME@batch``."""
        return self.network if self.batch == 1 else f"{self.network}@{self.batch}"


Comparison: TypeAlias = tuple[str, Cell, Cell]
"""``networks`` or ``engines``, and the cells of the first and the second."""


@dataclass(frozen=True)
class Order:
    """How many times as long the second of a pair takes as the first, with the interval.

    Attributes:
        where: The engine, or the network and the batch size, under which the pair was compared.
        ratio: Seconds of the second over seconds of the first.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    where: str
    ratio: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 if the first is certainly faster, -1 if the second is, 0 for a tie."""
        return (self.low > 1) - (self.high < 1)


@dataclass(frozen=True)
class Pair:
    """Two networks or two engines with their order wherever both were measured.

    Attributes:
        kind: ``networks`` or ``engines``.
        first: Name of the first.
        second: Name of the second.
        orders: The orders.
    """

    kind: str
    first: str
    second: str
    orders: tuple[Order, ...]

    @property
    def is_inverted(self) -> bool:
        """True if the order differs with certainty."""
        return {-1, 1} <= {order.sign for order in self.orders}

    @property
    def strength(self) -> float:
        """Factor by which the certain parts of the two most different orders differ."""
        return max(order.low for order in self.orders) / min(order.high for order in self.orders)


def read_cells(document: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield the cells of a document of either form; engines that failed have none."""
    device = json.dumps([document["device"].get(key) for key in ("name", "cores")])
    if "rows" not in document:
        quiet = _quiet(document["disturbances"])
        for engine, row in document["engines"].items():
            if "failure" not in row:
                yield Cell(document["network"], 1, engine, device, _seconds(row, quiet, batch=1))
        return
    quiet_by_batch = dict(zip(document["batches"], map(_quiet, document["disturbances"]), strict=False))
    for row in document["rows"]:
        if "failure" not in row:
            seconds = _seconds(row, quiet_by_batch.get(row["batch"], []), batch=row["batch"])
            yield Cell(document["model"]["name"], row["batch"], row["engine"], device, seconds)


def _quiet(disturbances: Sequence[Sequence[Mapping[str, float]]]) -> list[bool]:
    """Return for every process whether others left the cores to it."""
    return [not rounds or fmean(each["foreign"] for each in rounds) <= MOST_FOREIGN for rounds in disturbances]


def _seconds(row: Mapping[str, Any], quiet: Sequence[bool], *, batch: int) -> tuple[float, ...]:
    pairs = itertools.zip_longest(row["process_fastest_s"], quiet[: len(row["process_fastest_s"])], fillvalue=True)
    return tuple(value / batch if is_quiet else math.nan for value, is_quiet in pairs)


def find_pairs(cells: Iterable[Cell], *, together: bool = True) -> list[Pair]:
    """Return all pairs of networks and of engines that were compared at least twice, on one machine each.

    Args:
        cells: The cells.
        together: True for intervals that hold together for all pairs, False for those that hold pair by pair.
    """
    pairs = []
    for _, group in itertools.groupby(sorted(cells, key=lambda cell: cell.device), key=lambda cell: cell.device):
        own = list(group)
        comparisons = [*_comparisons(own, "networks"), *_comparisons(own, "engines")]
        numbers = Counter(map(_names, comparisons))
        orders: defaultdict[tuple[str, str, str], list[Order]] = defaultdict(list)
        for comparison in comparisons:
            names = _names(comparison)
            level = 1 - (1 - LEVEL) / (len(comparisons) if together else numbers[names])
            order = _compare(comparison, level=level)
            if order is not None:
                orders[names].append(order)
        pairs += [Pair(*names, tuple(found)) for names, found in orders.items() if len(found) > 1]
    return pairs


def _names(comparison: Comparison) -> tuple[str, str, str]:
    kind, first, second = comparison
    return (kind, first.workload, second.workload) if kind == "networks" else (kind, first.engine, second.engine)


def _comparisons(cells: Sequence[Cell], kind: str) -> list[Comparison]:
    """Return pairs of cells: networks of one engine and batch size, or engines on one network and batch size."""
    groups: defaultdict[Any, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[(cell.engine, cell.batch) if kind == "networks" else cell.workload].append(cell)
    key = (lambda cell: cell.workload) if kind == "networks" else (lambda cell: cell.engine)
    return [
        (kind, first, second)
        for group in groups.values()
        for first, second in itertools.combinations(sorted(group, key=key), 2)
    ]


def _compare(comparison: Comparison, *, level: float) -> Order | None:
    """Return the order of two cells; ``None`` for fewer than two processes."""
    kind, first, second = comparison
    if kind == "networks":
        found = _welch(first.logs, second.logs, level)
        where = first.engine
    else:
        pairs = zip(first.seconds, second.seconds, strict=False)
        logs = [math.log(two / one) for one, two in pairs if not math.isnan(one + two)]
        found, where = _paired(logs, level), first.workload
    if found is None:
        return None
    mean, half = found
    return Order(where, math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700)))


def _paired(logs: Sequence[float], level: float) -> tuple[float, float] | None:
    if len(logs) < 2:
        return None
    mean, interval = mean_interval(logs, level=level)
    return mean, interval.high - mean


def _welch(first: Sequence[float], second: Sequence[float], level: float) -> tuple[float, float] | None:
    if min(len(first), len(second)) < 2:
        return None
    one, two = (variance(values) / len(values) for values in (first, second))
    mean, total = fmean(second) - fmean(first), one + two
    if total == 0:
        return mean, 0.0
    freedom = total**2 / (one**2 / (len(first) - 1) + two**2 / (len(second) - 1))
    return mean, float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(total)


def main() -> None:
    """Print the tables, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--draw", type=Path, help="SVG with the strongest inversions")
    parser.add_argument("--json", type=Path, help="JSON with all pairs")
    parser.add_argument("--by-pair", action="store_true", help="intervals hold at 95 %% for each pair by itself")
    arguments = parser.parse_args()
    files = arguments.files or sorted(RESULTS.glob("*.json"))
    documents = [json.loads(file.read_text()) for file in files]
    # The folder also has a table of other networks, which names no single engines.
    cells = (cell for each in documents if {"rows", "engines"} & each.keys() for cell in read_cells(each))
    pairs = find_pairs(cells, together=not arguments.by_pair)
    print(tables(pairs))
    if arguments.json:
        arguments.json.write_text(json.dumps([_pair_document(pair) for pair in pairs], indent=1) + "\n")
    if arguments.draw:
        arguments.draw.write_text(picture(pairs) + "\n")


def tables(pairs: Sequence[Pair]) -> str:
    """Return how many orders are certain, and all certain inversions, as Markdown."""
    lines = [
        "| pairs of | pairs | comparisons | certain | ties | inverted pairs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in ("networks", "engines"):
        own = [pair for pair in pairs if pair.kind == kind]
        orders = [order for pair in own for order in pair.orders]
        certain, inverted = sum(order.sign != 0 for order in orders), sum(pair.is_inverted for pair in own)
        lines.append(f"| {kind} | {len(own)} | {len(orders)} | {certain} | {len(orders) - certain} | {inverted} |")
    lines += ["", "| pair | first is faster | second is faster | ties |", "| --- | --- | --- | --- |"]
    for pair in inversions(pairs):
        columns = [_orders_text(pair, sign) for sign in (1, -1, 0)]
        lines.append(f"| {pair.first} / {pair.second} | {' | '.join(columns)} |")
    return "\n".join(lines)


def inversions(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs whose order differs with certainty, the strongest first."""
    return sorted((pair for pair in pairs if pair.is_inverted), key=lambda pair: -pair.strength)


def _orders_text(pair: Pair, sign: int) -> str:
    texts = (f"{each.where}: {each.ratio ** (sign or 1):.2f}" for each in pair.orders if each.sign == sign)
    return ", ".join(texts) or "–"


def _pair_document(pair: Pair) -> dict[str, Any]:
    orders = [{**vars(order), "sign": order.sign} for order in pair.orders]
    return {**vars(pair), "orders": orders, "inverted": pair.is_inverted}


def picture(pairs: Sequence[Pair], *, most: int = 5) -> str:
    """Return the strongest inversions as SVG: every certain order with its interval, on either side of 1."""
    from passsearch.report.charts import chart_svg, ratio_chart
    from passsearch.report.charts.chart import BASELINE, BEST

    drawn = [
        (pair, order)
        for pair in inversions(pairs)[:most]
        for order in sorted(pair.orders, key=lambda order: order.ratio)
        if order.sign
    ]
    rows = [
        (f"{order.where}: {pair.second} / {pair.first}", {"ratio": order.ratio, "interval": [order.low, order.high]})
        for pair, order in drawn
    ]
    colours = [BEST if order.sign > 0 else BASELINE for _, order in drawn]
    return chart_svg(
        ratio_chart("Orders that differ", "seconds of the one / seconds of the other", rows, colours=colours)
    )


if __name__ == "__main__":
    main()
