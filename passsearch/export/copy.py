"""Copies of deployment folders."""

import shutil
from pathlib import Path

from passsearch.export.deployment import check_replaceable, move_into_place, partial_folder
from passsearch.export.record import PIPELINE, read_record


def copy_deployment(source: Path, folder: Path) -> Path:
    """Copy a deployment folder with its build, and replace an earlier export of the same network.

    Returns:
        The absolute path of the copy.

    Raises:
        UserError: The folder has other files, is of another network or cannot be written.
    """
    folder = folder.resolve()
    if folder == source.resolve():
        return folder
    check_replaceable(folder, network=str(read_record(source / PIPELINE)["model"].get("sha256") or ""))
    with partial_folder(folder) as partial:
        shutil.copytree(source, partial)
        move_into_place(partial, folder)
    return folder
