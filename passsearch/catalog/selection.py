"""Which passes are worth trying on one network, and why the others are not."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from passsearch.catalog.schema import EVERY_CLASS, UNKNOWN_CLASS, Catalog, CatalogEntry
from passsearch.core import Fingerprint


class Ruling(NamedTuple):
    """One pass and why it is in or out."""

    entry: CatalogEntry
    reason: str


@dataclass(frozen=True)
class Selection:
    """The catalog as one network divides it.

    Attributes:
        kept: Candidates, in the catalog's order.
        dropped: All other passes.
    """

    kept: tuple[Ruling, ...]
    dropped: tuple[Ruling, ...]

    def names(self) -> tuple[str, ...]:
        """Names of the candidates."""
        return tuple(entry.name for entry, _ in self.kept)


def candidates(
    catalog: Catalog,
    classes: Collection[str],
    *,
    fingerprint: Fingerprint,
    wanted: Collection[str] = (),
    tvm_version: str = "",
    device: str = "",
) -> Selection:
    """Divide a catalog by a network's classes and features.

    Args:
        catalog: The passes to divide.
        classes: Names of the network's architecture classes; a pass stays if it serves one of them.
            ``unknown``, or none at all, keeps every valid pass.
        fingerprint: The network's features.
        wanted: Additional passes the user asked for by name.
        tvm_version: Leaves out passes a compiler of that version lacks; empty leaves none out.
        device: ``cpu`` or ``gpu``; leaves out passes that do nothing for it; empty leaves none out.

    Raises:
        UserError: A wanted pass is not in the catalog.
    """
    for name in wanted:
        catalog.entry(name)
    kept, dropped = [], []
    for entry in catalog.entries.values():
        barred = _barred(entry, wanted, tvm_version=tvm_version, device=device)
        objection = barred or _objection(entry, classes, fingerprint=fingerprint)
        if objection and (barred or entry.name not in wanted):
            dropped.append(Ruling(entry, objection))
        else:
            kept.append(
                Ruling(entry, _recommendation(entry, classes, fingerprint=fingerprint, asked=entry.name in wanted))
            )
    return Selection(tuple(kept), tuple(dropped))


def _barred(entry: CatalogEntry, wanted: Collection[str], *, tvm_version: str, device: str) -> str:
    if entry.role == "excluded":
        return f"never searched: {entry.reason}"
    if tvm_version and not entry.supports(tvm_version):
        return f"needs TVM {entry.tvm}; this is {tvm_version}"
    if device and entry.devices and device not in entry.devices:
        return f"serves a {_listed(entry.devices).upper()}; the target is a {device.upper()}"
    if entry.role == "additional" and entry.name not in wanted:
        return f"only on request: {entry.reason}"
    return ""


def _objection(entry: CatalogEntry, classes: Collection[str], *, fingerprint: Fingerprint) -> str:
    if _unclassified(classes):
        return ""
    if EVERY_CLASS not in entry.classes and not set(entry.classes) & set(classes):
        return f"serves {_listed(entry.classes)}; this network is {_listed(sorted(classes))}"
    if entry.features and not _present(entry, fingerprint):
        return f"needs {_listed(entry.features, ' or ')}; this graph has none"
    return ""


def _recommendation(entry: CatalogEntry, classes: Collection[str], *, fingerprint: Fingerprint, asked: bool) -> str:
    grounds = [f"{fingerprint.count(name)} x {_words(name)}" for name in _present(entry, fingerprint)]
    if asked:
        grounds.insert(0, "asked for")
    elif _unclassified(classes):
        grounds.insert(0, "no class fits, so every valid pass stays")
    elif EVERY_CLASS in entry.classes:
        grounds.insert(0, "serves every class")
    else:
        shared = [name for name in entry.classes if name in classes]
        grounds.insert(0, f"serves {_listed(shared)}")
    return "; ".join(grounds)


def _unclassified(classes: Collection[str]) -> bool:
    return not classes or UNKNOWN_CLASS in classes


def _present(entry: CatalogEntry, fingerprint: Fingerprint) -> list[str]:
    return [name for name in entry.features if fingerprint.count(name)]


def _listed(names: Collection[str], joint: str = " and ") -> str:
    return joint.join(_words(name) for name in names)


def _words(name: str) -> str:
    return name.replace("_", " ")
