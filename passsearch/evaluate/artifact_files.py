"""The files of artifacts: which ones this user has written, what they say of kernels, and which ones make room."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from passsearch.dialects.contract import KERNEL_COSTS, KERNEL_HASHES, KernelCost
from passsearch.evaluate.disk_limit import delete_folder
from passsearch.evaluate.records import Built
from passsearch.evaluate.signature import Origin, is_build_signed, sign_build
from passsearch.store import STATES


class ArtifactFiles:
    """The folders of the artifacts of one run."""

    def __init__(self, folder: Path, origin: Origin) -> None:
        """Know no artifact yet.

        Args:
            folder: Folder of the artifacts' folders.
            origin: What the signatures of the artifacts say of them.
        """
        self._folder, self._origin = folder, origin
        self._own: set[Path] = set()  # artifacts that this start has built, or whose signature it has checked

    def has(self, folder: Path) -> bool:
        """Return whether the files of an artifact exist and a run of this user has written them."""
        if folder not in self._own and is_build_signed(folder, self._origin):
            self._own.add(folder)
        return folder in self._own and folder.exists()

    def sign(self, folder: Path) -> None:
        """Sign an artifact that was just built."""
        sign_build(folder, self._origin)
        self._own.add(folder)

    def kernel_hashes(self, built: Built) -> Mapping[str, str] | None:
        """Return a hash of each kernel of an artifact by its name; ``None`` if its files are gone."""
        file = built.folder / KERNEL_HASHES
        if not self.has(built.folder) or not file.exists():
            return None
        hashes: dict[str, str] = json.loads(file.read_text())
        return hashes

    def kernel_costs(self, built: Built) -> Mapping[str, KernelCost]:
        """Return the cost of each kernel of an artifact by its name; without those that are unknown."""
        file = built.folder / KERNEL_COSTS
        costs = json.loads(file.read_text()) if self.has(built.folder) and file.exists() else {}
        return {name: KernelCost(**cost) for name, cost in costs.items()}

    def keep_only(self, kept: Collection[Built]) -> None:
        """Delete the files of all artifacts but these; each is as large as the network's weights."""
        names = {built.folder.name for built in kept} | {STATES}
        for folder in self._folder.iterdir():
            if folder.is_dir() and folder.name not in names:
                delete_folder(folder)
