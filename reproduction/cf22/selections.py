"""The paper's pass selections for one network: BL, AS-0, AS-1 and PO-0 to PO-3 (CF'22, section 5 and table 5)."""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from passsearch.catalog import Catalog
from passsearch.core import Candidate, PassSpec, Pipeline

TABLE_5 = "ssd_resnet50"
"""The network whose sequences the paper prints."""

ARCHITECTURE_SPECIFIC, RANDOMIZED = ("AS-0", "AS-1"), ("PO-0", "PO-1", "PO-2", "PO-3")
LENGTHS = (6, 8)
"""Fewest and most passes of a randomised selection in table 5."""


def paper_candidates(name: str, classes: Collection[str], *, catalog: Catalog) -> list[Candidate]:
    """Return the seven selections, in the paper's order.

    For the network of table 5 they are the printed sequences. For other networks AS is all passes of the network's
    classes in table 4, in two random orders. PO is drawn from these passes, the baseline's and the additional ones.
    The paper reports the best of several orders (``orders``), and its AS omits some passes; a single random order is
    weaker.

    Args:
        name: Name of the network; it seeds the random choice.
        classes: Architecture classes of the network.
        catalog: Catalog with table 4 and table 5.
    """
    if name.startswith(TABLE_5):
        names = ("BL", *ARCHITECTURE_SPECIFIC, *RANDOMIZED)
        return [catalog.sequence(selection).candidate() for selection in names]
    specific = passes_of_categories(catalog, classes)
    all_passes = passes_of_categories(catalog, {*classes, "BL", "AD"})
    pools = dict.fromkeys(ARCHITECTURE_SPECIFIC, specific) | dict.fromkeys(RANDOMIZED, all_passes)
    sizes = dict.fromkeys(ARCHITECTURE_SPECIFIC, len(specific))
    sizes |= {selection: random.Random(f"{name} {selection} size").randint(*LENGTHS) for selection in RANDOMIZED}
    random_candidates = [
        _draw(f"{name} {selection}", pools[selection], size=size, name=selection) for selection, size in sizes.items()
    ]
    return [catalog.sequence("BL").candidate(), *random_candidates]


def orders(selection: Sequence[Candidate], *, count: int) -> list[Candidate]:
    """Return a selection's own orders and random others, all different; fewer than ``count`` where there are no more.

    Args:
        selection: Candidates of the same passes, in the orders that are known.
        count: Number of orders.
    """
    first = selection[0]
    generator = random.Random(f"{first.name} orders {first.pipeline}")
    found = dict.fromkeys(candidate.pipeline.passes for candidate in selection)
    for _ in range(20 * count):
        if len(found) < count:
            found[tuple(generator.sample(first.pipeline.passes, len(first.pipeline.passes)))] = None
    return [replace(first, pipeline=Pipeline(order)) for order in found]


def by_passes(candidates: Collection[Candidate]) -> list[list[Candidate]]:
    """Group candidates that are orders of the same passes, as AS-0 and AS-1 are."""
    groups: dict[frozenset[PassSpec], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(frozenset(candidate.pipeline.passes), []).append(candidate)
    return list(groups.values())


def passes_of_categories(catalog: Catalog, categories: Collection[str]) -> list[PassSpec]:
    """Return the passes in these columns of table 4 that may be searched."""
    entries = [entry for entry in catalog.entries.values() if set(entry.paper) & set(categories)]
    # FirstOrderGradient is excluded: it makes a network return its gradient.
    return [PassSpec.of(entry.name) for entry in entries if entry.role != "excluded"]


def _draw(seed: str, passes: list[PassSpec], *, size: int, name: str) -> Candidate:
    return Candidate(Pipeline(tuple(random.Random(seed).sample(passes, size))), name=name)
