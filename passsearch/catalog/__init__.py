"""The pass catalog: schema, loader, argument checks, and the selection of passes for a network."""

from passsearch.catalog.binding import bind_arguments, bind_pipeline, with_needs
from passsearch.catalog.learning import learned, proposal
from passsearch.catalog.loader import load
from passsearch.catalog.schema import Catalog, CatalogEntry, NamedSequence, Need, Parameter
from passsearch.catalog.selection import Ruling, Selection, candidates

__all__ = [
    "Catalog",
    "CatalogEntry",
    "NamedSequence",
    "Need",
    "Parameter",
    "Ruling",
    "Selection",
    "bind_arguments",
    "bind_pipeline",
    "candidates",
    "learned",
    "load",
    "proposal",
    "with_needs",
]
