"""All features of a graph, in one value."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from passsearch.analysis import (
    activation,
    attention,
    convolution,
    detection,
    normalization,
    residual,
    rewrites,
    siblings,
    structure,
)
from passsearch.analysis.graph import Dataflow, dataflow
from passsearch.core import Feature, Fingerprint, ModuleSummary

_FAMILIES: tuple[Callable[[Dataflow], Mapping[str, Feature]], ...] = (
    convolution.features,
    residual.features,
    normalization.features,
    activation.features,
    attention.features,
    detection.features,
    siblings.features,
    rewrites.features,
    structure.features,
)


def fingerprint(summary: ModuleSummary) -> Fingerprint:
    """Finds every feature of a network.

    Features that are absent stand in it with count 0, so that they can be told from names that do not exist.
    """
    flow = dataflow(summary)
    found: dict[str, Feature] = {}
    for family in _FAMILIES:
        found.update(family(flow))
    return Fingerprint(MappingProxyType(found))


def feature_names() -> frozenset[str]:
    """Every name that a fingerprint holds."""
    return frozenset(fingerprint(ModuleSummary((), ())).features)
