"""``catalog_entry``: what the catalog says about one pass."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from passsearch.api.common import catalog_paths
from passsearch.api.results import CatalogPass
from passsearch.catalog import load
from passsearch.core import check_arguments
from passsearch.dialects import DIALECTS


@check_arguments
def catalog_entry(name: str, *, dialect: str | None = None, catalogs: Sequence[str | Path] = ()) -> CatalogPass:
    """Return everything the catalog says about one pass.

    Args:
        name: Name of the pass.
        dialect: Name of the dialect; the first one by default.
        catalogs: YAML files with the user's own passes.

    Raises:
        UserError: There is no such pass or dialect, or a file has a mistake.
    """
    return CatalogPass(asdict(load(dialect or next(iter(DIALECTS)), *catalog_paths(catalogs)).entry(name)))
