"""Pipelines that differ from a good one by a single pass: where exploration from the imported network does not get."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from passsearch.catalog import Catalog
from passsearch.core import PassSpec, Pipeline


def variants(pipeline: Pipeline, steps: Sequence[PassSpec], *, catalog: Catalog, seed: int) -> Iterator[Pipeline]:
    """Iterate, in random order, over the pipelines that one change makes.

    A change leaves out a pass, exchanges two neighbours, gives a pass other arguments, or inserts a pass. Changes that
    put a pass after one that it conflicts with are left out.

    Args:
        pipeline: The pipeline to change.
        steps: Passes to insert, with every choice of arguments.
        catalog: Catalog with the conflicts.
        seed: Seed of the order.
    """
    passes = pipeline.passes
    changed = [
        *((*passes[:place], *passes[place + 1 :]) for place in range(len(passes))),
        *(
            (*passes[:place], passes[place + 1], passes[place], *passes[place + 2 :])
            for place in range(len(passes) - 1)
        ),
        *(
            (*passes[:place], step, *passes[place + 1 :])
            for place, old in enumerate(passes)
            for step in steps
            if step.name == old.name and step != old
        ),
        *((*passes[:place], step, *passes[place:]) for place in range(len(passes) + 1) for step in steps),
    ]
    # Without duplicates: two equal passes side by side give the same pipeline whichever is left out.
    distinct = list(dict.fromkeys(changed))
    random.Random(seed).shuffle(distinct)  # noqa: S311
    found = (Pipeline(variant) for variant in distinct if variant != passes)
    had = Counter(catalog.conflicts(pipeline))
    return (variant for variant in found if not Counter(catalog.conflicts(variant)) - had)
