"""The pass catalog: schema, loader, argument checks, and the selection of passes for a network."""

from passsearch.catalog.binding import (
    bind_arguments,
    bind_pipeline,
    drop_conflicts,
    insert_prerequisites,
    warn_of_conflicts,
)
from passsearch.catalog.corpus import read_corpus
from passsearch.catalog.fields import Fields
from passsearch.catalog.foreign_factories import check_factories, find_folders
from passsearch.catalog.learning import format_proposal, summarize_spaces
from passsearch.catalog.loader import describe_name, find_entry, load
from passsearch.catalog.relations import read_relations
from passsearch.catalog.schema import Catalog, CatalogEntry, NamedSequence, Need, Parameter
from passsearch.catalog.selection import NEVER, PassDecision, Selection, require_searchable, select_passes
from passsearch.catalog.tf32 import catalog_in_tf32
from passsearch.catalog.yaml_files import read_yaml

__all__ = [
    "NEVER",
    "Catalog",
    "CatalogEntry",
    "Fields",
    "NamedSequence",
    "Need",
    "Parameter",
    "PassDecision",
    "Selection",
    "bind_arguments",
    "bind_pipeline",
    "catalog_in_tf32",
    "check_factories",
    "describe_name",
    "drop_conflicts",
    "find_entry",
    "find_folders",
    "format_proposal",
    "insert_prerequisites",
    "load",
    "read_corpus",
    "read_relations",
    "read_yaml",
    "require_searchable",
    "select_passes",
    "summarize_spaces",
    "warn_of_conflicts",
]
