"""What the catalog says about one pass, and its sequences checked on a network."""

from collections.abc import Sequence
from pathlib import Path

from passsearch.api.common import Progress, catalog_paths, network_session, open_evaluator
from passsearch.api.results import CatalogPass
from passsearch.catalog import describe_name
from passsearch.core import NetworkOptions, check_arguments
from passsearch.dialects import DIALECTS
from passsearch.evaluate import check_sequences
from passsearch.results import CheckedSequence


@check_arguments
def catalog_entry(name: str, *, dialect: str | None = None, catalogs: Sequence[str | Path] = ()) -> CatalogPass:
    """Return everything the catalog says about one pass, or about one named sequence.

    Args:
        name: Name of the pass or sequence.
        dialect: Name of the dialect; by default the first one that has the name.

    Raises:
        UserError: There is no such name or dialect, or a file has a mistake.
    """
    return CatalogPass(describe_name(name, [dialect] if dialect else [*DIALECTS], *catalog_paths(catalogs)))


def check_catalog_sequences(
    model: object, toolchain: str, *, catalogs: Sequence[str | Path] = (), progress: Progress = lambda *_: None
) -> tuple[CheckedSequence, ...]:
    """Reach every named sequence on a network through shared states and in a process of its own, and compare.

    Args:
        model: The network: see ``tune``.
        toolchain: Name of the toolchain.
        catalogs: YAML files with the user's own passes.
        progress: Callback; gets the sequence that is being checked.

    Raises:
        UserError: The network cannot be imported.
        EnvironmentFault: The compiler does not start.
    """
    # Without the fact cache, whose facts other processes have recorded.
    session = network_session(model, None, NetworkOptions(toolchain=toolchain, catalogs=catalogs))
    with open_evaluator(session, remember=False) as evaluator:
        sequences = tuple(session.catalog.sequences.values())
        return check_sequences(evaluator, sequences, progress=progress)
