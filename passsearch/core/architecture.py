"""The analyzer's result: features of a graph with evidence, and the architecture classes that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from passsearch.core.passes import Json

UNKNOWN_CLASS = "unknown"
"""The class of a network that no class rule fits."""


@dataclass(frozen=True)
class Feature:
    """One structural trait of a graph.

    Attributes:
        count: Number of occurrences; 0 when absent.
        first: Index of the operator where it first occurs, ``None`` when absent.
        detail: Extra information for people, printed beside the count ("groups of 3").
    """

    count: int
    first: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Fingerprint:
    """Every feature that the analyzer can find, by name; absent features have count 0."""

    features: Mapping[str, Feature] = field(default_factory=dict)

    def __repr__(self) -> str:
        present = sorted(self.present_features())
        return ", ".join(f"{self.count(name)} x {name}" for name in present) or "no feature"

    def count(self, name: str) -> int:
        """Return how often a feature occurs, 0 if this fingerprint has no feature of that name."""
        feature = self.features.get(name)
        return feature.count if feature else 0

    def present_features(self) -> frozenset[str]:
        """Return the names of the features that occur."""
        return frozenset(name for name, feature in self.features.items() if feature.count)

    def to_json(self) -> dict[str, Json]:
        """Return the features that occur, with count, first operator and detail."""
        # Sorted, so that equal fingerprints give equal files.
        return {
            name: {"count": feature.count, "first": feature.first, "detail": feature.detail}
            for name, feature in sorted(self.features.items())
            if feature.count
        }


@dataclass(frozen=True)
class ArchitectureClass:
    """A class the network belongs to, with evidence that a person can check; ``unknown`` if no class fits."""

    name: str
    evidence: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """Return the class as result files store it."""
        return {"name": self.name, "evidence": list(self.evidence)}
