"""The catalog of a search on a GPU whose tensor cores multiply float32 as TF32."""

from dataclasses import replace

from passsearch.catalog.schema import Catalog, CatalogEntry
from passsearch.core import PRECISION, TF32


def catalog_in_tf32(catalog: Catalog) -> Catalog:
    """Return the catalog whose passes and recommended sequences multiply float32 as TF32, where they can."""
    entries = {name: _entry_in_tf32(entry) for name, entry in catalog.entries.items()}
    sequences = {
        name: replace(each, starts_search=True, recommended=1)
        if each.pipeline.is_in_tf32
        else replace(each, recommended=0)
        for name, each in catalog.sequences.items()
    }
    return replace(catalog, entries=entries, sequences=sequences)


def _entry_in_tf32(entry: CatalogEntry) -> CatalogEntry:
    """Return the entry of which a search tries TF32 alone, where the pass has that choice."""
    own = (
        replace(each, alternatives=(TF32,)) if each.name == PRECISION and TF32 in each.choices else each
        for each in entry.parameters
    )
    return replace(entry, parameters=tuple(own))
