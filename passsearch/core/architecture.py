"""What the analyzer says of a network: features with evidence, and the classes that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from passsearch.core.passes import Json


@dataclass(frozen=True)
class Feature:
    """One structural trait of a graph.

    Attributes:
        count: How often it occurs; 0 when absent.
        first: Index of the operator where it first occurs, ``None`` when absent.
        detail: What a person should read beside the count ("groups of 3").
    """

    count: int
    first: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Fingerprint:
    """Every feature the analyzer knows, by name; absent features have count 0."""

    features: Mapping[str, Feature] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """Occurrences of one feature, 0 if it is unknown to this fingerprint."""
        feature = self.features.get(name)
        return feature.count if feature else 0

    def present(self) -> frozenset[str]:
        """Names of the features that occur."""
        return frozenset(name for name, feature in self.features.items() if feature.count)

    def to_json(self) -> dict[str, Json]:
        """Present features with count, first operator and detail."""
        return {
            name: {"count": feature.count, "first": feature.first, "detail": feature.detail}
            for name, feature in sorted(self.features.items())
            if feature.count
        }


@dataclass(frozen=True)
class ArchitectureClass:
    """A class the network belongs to, with the evidence a person can check; ``unknown`` if none fits."""

    name: str
    evidence: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        """The form of the result files."""
        return {"name": self.name, "evidence": list(self.evidence)}
