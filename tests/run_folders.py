"""Unpacks the run folders that ``cli/record_runs.py`` recorded."""

import tarfile
from pathlib import Path

PACKED = Path(__file__).parent / "data" / "run_folders"


def unpack(name: str, folder: Path) -> Path:
    """Unpack the run folder of that name into a folder and return it."""
    with tarfile.open(PACKED / f"{name}.tar.xz") as archive:
        # Python before 3.11.4 has no filters, and no argument for one.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / name
