"""Select the catalog's passes that are worth a trial on one network, with a reason for every pass."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from passsearch.catalog.schema import EVERY_CLASS, Catalog, CatalogEntry
from passsearch.core import UNKNOWN_CLASS, Fingerprint
from passsearch.errors import UserError

NEVER = "never searched: "


class PassDecision(NamedTuple):
    """The decision on one pass, with its reason."""

    entry: CatalogEntry
    reason: str

    def __repr__(self) -> str:
        return f"{self.entry.name}: {self.reason}"


@dataclass(frozen=True)
class Selection:
    """The catalog, divided for one network.

    Attributes:
        candidates: Candidates of a search, in the order of the catalog.
        others: All other passes, in the order of the catalog.
    """

    candidates: tuple[PassDecision, ...]
    others: tuple[PassDecision, ...]

    def __repr__(self) -> str:
        return f"{len(self.candidates)} candidates: {', '.join(self.names())}; {len(self.others)} other passes"

    def names(self) -> tuple[str, ...]:
        """Return the names of the candidates."""
        return tuple(entry.name for entry, _ in self.candidates)


def select_passes(
    catalog: Catalog,
    classes: Collection[str],
    *,
    fingerprint: Fingerprint,
    requested_passes: Collection[str] = (),
    tvm_version: str = "",
    device: str = "",
) -> Selection:
    """Divide a catalog into candidates and other passes, by a network's classes and features.

    Args:
        catalog: The passes to divide.
        classes: Names of the network's architecture classes. A pass is a candidate if it serves one of them;
            ``unknown``, or no class at all, makes every valid pass a candidate.
        fingerprint: The network's features.
        requested_passes: Additional passes that the user requests by name.
        tvm_version: Version of the compiler; passes that it lacks are no candidates. Empty means any version.
        device: ``cpu`` or ``gpu``; passes without effect on it are no candidates. Empty means any device.

    Raises:
        UserError: A requested pass is not in the catalog, or no search can use it.
    """
    # A mistyped request would otherwise have no effect and no message.
    require_searchable(catalog, requested_passes, tvm_version=tvm_version, device=device)
    selected, rest = [], []
    for entry in catalog.entries.values():
        exclusion = _exclusion(entry, requested_passes, tvm_version=tvm_version, device=device)
        # The user's request overrules classes and features, but never an exclusion.
        objection = "" if entry.name in requested_passes else _objection(entry, classes, fingerprint=fingerprint)
        if exclusion or objection:
            rest.append(PassDecision(entry, exclusion or objection))
        else:
            reason = _recommendation(
                entry, classes, fingerprint=fingerprint, is_requested=entry.name in requested_passes
            )
            selected.append(PassDecision(entry, reason))
    return Selection(tuple(selected), tuple(rest))


def require_searchable(catalog: Catalog, names: Collection[str], *, tvm_version: str = "", device: str = "") -> None:
    """Refuse passes that no search with this compiler and device can use.

    Raises:
        UserError: A pass is not in the catalog, or is excluded; the message says why.
    """
    for name in names:
        exclusion = _exclusion(catalog.entry(name), names, tvm_version=tvm_version, device=device)
        if exclusion:
            raise UserError(
                f"Pass `{name}` cannot be searched: {exclusion.removeprefix(NEVER).rstrip('.')}. Leave it out. "
                f"See: passsearch catalog show {name}"
            )


def _exclusion(entry: CatalogEntry, requested_passes: Collection[str], *, tvm_version: str, device: str) -> str:
    """Return the reason why a pass is no candidate on any network, empty if there is none."""
    if entry.role == "excluded":
        return f"{NEVER}{entry.reason}"
    if tvm_version and not entry.supports(tvm_version):
        return f"needs TVM {entry.tvm}; this is {tvm_version}"
    if device and entry.devices and device not in entry.devices:
        return f"serves a {_join(entry.devices).upper()}; the target is a {device.upper()}"
    if entry.role == "additional" and entry.name not in requested_passes:
        return f"only on request: {entry.reason}"
    return ""


def _objection(entry: CatalogEntry, classes: Collection[str], *, fingerprint: Fingerprint) -> str:
    """Return the reason why a pass is no candidate on this network, empty if there is none."""
    # A network that fits no class has a structure that the rules do not describe, so nothing speaks against a pass.
    if _is_unclassified(classes):
        return ""
    if EVERY_CLASS not in entry.classes and not set(entry.classes) & set(classes):
        return f"serves {_join(entry.classes)}; this network is {_join(sorted(classes))}"
    if entry.features and not _matching_features(entry, fingerprint):
        return f"needs {_join(entry.features, ' or ')}; this graph has none that depends on its input"
    return ""


def _recommendation(
    entry: CatalogEntry, classes: Collection[str], *, fingerprint: Fingerprint, is_requested: bool
) -> str:
    reasons = [f"{fingerprint.count(name)} x {_in_words(name)}" for name in _matching_features(entry, fingerprint)]
    if is_requested:
        reasons.insert(0, "requested by the user")
    elif _is_unclassified(classes):
        reasons.insert(0, "no class fits, so every valid pass stays")
    elif EVERY_CLASS in entry.classes:
        reasons.insert(0, "serves every class")
    else:
        reasons.insert(0, f"serves {_join([name for name in entry.classes if name in classes])}")
    return "; ".join(reasons)


def _is_unclassified(classes: Collection[str]) -> bool:
    return not classes or UNKNOWN_CLASS in classes


def _matching_features(entry: CatalogEntry, fingerprint: Fingerprint) -> list[str]:
    return [name for name in entry.features if fingerprint.count(name)]


def _join(names: Collection[str], separator: str = " and ") -> str:
    return separator.join(_in_words(name) for name in names)


def _in_words(name: str) -> str:
    return name.replace("_", " ")
