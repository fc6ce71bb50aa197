"""The paper's pass selections for one network: BL, AS-0, AS-1 and PO-0 to PO-3 (CF'22, section 5 and table 5)."""

import random
from collections.abc import Collection

from passsearch.catalog import Catalog
from passsearch.core import Candidate, PassSpec, Pipeline

TABLE_5 = "ssd_resnet50"
"""The network whose sequences the paper prints."""

ARCHITECTURE_SPECIFIC, RANDOMIZED = ("AS-0", "AS-1"), ("PO-0", "PO-1", "PO-2", "PO-3")
LENGTHS = (6, 8)
"""Fewest and most passes of a randomised selection in table 5."""


def selections(name: str, classes: Collection[str], *, catalog: Catalog) -> list[Candidate]:
    """The seven, in the paper's order.

    What table 5 prints is taken as it is. Elsewhere AS is all passes of the network's classes in table 4, in two
    orders, and PO is drawn from these, the baseline's and the additional ones. The paper kept the best of several
    orders, and its AS leaves some passes out: one order drawn is less than that; what a search finds is more.

    Args:
        name: Of the network; seeds what is drawn.
        classes: Its architecture classes.
        catalog: Has table 4 and table 5.
    """
    if name.startswith(TABLE_5):
        names = ("BL", *ARCHITECTURE_SPECIFIC, *RANDOMIZED)
        return [catalog.sequence(each).candidate() for each in names]
    specific = listed(catalog, classes)
    anything = listed(catalog, {*classes, "BL", "AD"})
    sizes = dict.fromkeys(ARCHITECTURE_SPECIFIC, len(specific))
    sizes |= {each: random.Random(f"{name} {each} size").randint(*LENGTHS) for each in RANDOMIZED}
    pools = dict.fromkeys(ARCHITECTURE_SPECIFIC, specific) | dict.fromkeys(RANDOMIZED, anything)
    drawn = [_drawn(f"{name} {each}", pools[each], size=size, name=each) for each, size in sizes.items()]
    return [catalog.sequence("BL").candidate(), *drawn]


def listed(catalog: Catalog, categories: Collection[str]) -> list[PassSpec]:
    """Passes of table 4's columns, but FirstOrderGradient, which makes a network return its gradient."""
    entries = [entry for entry in catalog.entries.values() if set(entry.paper) & set(categories)]
    return [PassSpec.of(entry.name) for entry in entries if entry.role != "excluded"]


def _drawn(seed: str, passes: list[PassSpec], *, size: int, name: str) -> Candidate:
    return Candidate(Pipeline(tuple(random.Random(seed).sample(passes, size))), name=name)
