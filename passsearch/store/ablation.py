"""The ablation of a run: a file beside its result, and a folder with what it measured so far."""

import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import Timeout

from passsearch.core import parse_json
from passsearch.errors import UserError
from passsearch.results import Ablation, AppliedPipeline
from passsearch.store.deletion import delete_leftovers, delete_locked
from passsearch.store.result_schema import schema_problem
from passsearch.store.run_folder import RunFolder, read_result

ABLATION = "ablation.json"
"""File name of an ablation in a run folder."""

MEASURED = "ablation"
"""Name of the folder with the log of an ablation, in the run folder."""

_log = logging.getLogger(__name__)


def open_ablation(run: Path, settings: Mapping[str, Any]) -> RunFolder:
    """Open the folder with what an ablation of the run has measured; what was measured otherwise is deleted.

    Args:
        run: The run folder.
        settings: All that decides the measurements.

    Raises:
        UserError: The folder is in use, cannot be written, or has links.
    """
    # The run may come from another user, and a link would lead writing, and deleting, out of it.
    if link := next((entry for entry in run.iterdir() if entry.is_symlink()), None):
        raise UserError(f"`{link}` is a link, and a run folder has none; copy the run without it.")
    folder = run / MEASURED
    delete_leftovers(run)
    try:
        earlier = parse_json((folder / "run.json").read_text())
    except (OSError, ValueError):
        earlier = None
    if earlier is not None and earlier != settings:
        _log.info("%s was measured with other settings and begins anew", folder)
        # Not that of an ablation which runs now: `RunFolder` refuses it below.
        with contextlib.suppress(Timeout):
            delete_locked(folder)
    return RunFolder(folder, settings)


def read_ablation(run: Path) -> dict[str, Any] | None:
    """Return the ablation of a run's winner; ``None`` if there is none, or one of an earlier winner only.

    Raises:
        UserError: The file is not JSON, or a key is missing or has a wrong value.
    """
    file = run / ABLATION
    if not file.exists():
        return None
    again = f"measure it again: passsearch ablate {run}"
    try:
        ablation: dict[str, Any] = parse_json(file.read_text())
    except ValueError as error:
        raise UserError(f"`{file}` is not JSON: {error}; {again}") from error
    problem = schema_problem(ablation, Ablation.json_schema())
    if problem:
        raise UserError(f"`{file}`: {problem}; {again}")
    best = read_result(run)["best"]
    is_current = AppliedPipeline.from_json(ablation["winner"]) == AppliedPipeline.from_json(best)
    return ablation if is_current else None
