"""The paper's pass selections for one network: BL, AS-0, AS-1 and PO-0 to PO-3 (CF'22, section 5 and table 5)."""

import random
from collections.abc import Collection

from passsearch.catalog import Catalog
from passsearch.core import Candidate, PassSpec, Pipeline

TABLE_5 = frozenset({"RN", "SSD"})
"""Classes of the network whose sequences the paper prints."""

ARCHITECTURE_SPECIFIC, RANDOMIZED = ("AS-0", "AS-1"), ("PO-0", "PO-1", "PO-2", "PO-3")
LENGTHS = (6, 8)
"""Fewest and most passes of a randomised selection in table 5."""


def selections(name: str, classes: Collection[str], *, catalog: Catalog) -> list[Candidate]:
    """The seven, in the paper's order.

    What the paper prints is taken as it is. Elsewhere, as it says: AS is all passes of the network's classes in table
    4, in two of their orders; PO is drawn from these, the baseline's and the additional ones.

    Args:
        name: Of the network; seeds what is drawn.
        classes: Its architecture classes.
        catalog: Has table 4 and table 5.
    """
    if set(classes) == TABLE_5:
        names = ("BL", *ARCHITECTURE_SPECIFIC, *RANDOMIZED)
        return [catalog.sequence(each).candidate() for each in names]
    specific = listed(catalog, classes)
    anything = listed(catalog, {*classes, "BL", "AD"})
    sizes = dict.fromkeys(ARCHITECTURE_SPECIFIC, len(specific))
    sizes |= {each: random.Random(f"{name} {each} size").randint(*LENGTHS) for each in RANDOMIZED}
    pools = dict.fromkeys(ARCHITECTURE_SPECIFIC, specific) | dict.fromkeys(RANDOMIZED, anything)
    drawn = [_drawn(name, each, pools[each], size=size) for each, size in sizes.items()]
    return [catalog.sequence("BL").candidate(), *drawn]


def listed(catalog: Catalog, categories: Collection[str]) -> list[PassSpec]:
    """Passes of table 4's columns that may run at all."""
    entries = [entry for entry in catalog.entries.values() if set(entry.paper) & set(categories)]
    return [PassSpec.of(entry.name) for entry in entries if entry.role != "excluded"]


def _drawn(network: str, selection: str, passes: list[PassSpec], *, size: int) -> Candidate:
    chosen = random.Random(f"{network} {selection}").sample(passes, size)
    return Candidate(Pipeline(tuple(chosen)), name=selection)
