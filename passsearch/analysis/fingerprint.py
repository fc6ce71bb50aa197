"""The fingerprint of a network: all features of its graph."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from passsearch.analysis import (
    activation,
    attention,
    convolution,
    detection,
    joins,
    normalization,
    residual,
    rewrites,
    siblings,
    structure,
    tables,
)
from passsearch.analysis.graph import Dataflow, dataflow
from passsearch.core import Feature, Fingerprint, ModuleSummary, suggest_name
from passsearch.errors import UserError

_FAMILIES: tuple[Callable[[Dataflow], Mapping[str, Feature]], ...] = (
    convolution.find_features,
    residual.find_features,
    normalization.find_features,
    activation.find_features,
    attention.find_features,
    detection.find_features,
    siblings.find_features,
    joins.find_features,
    tables.find_features,
    rewrites.find_features,
    structure.find_features,
)


def compute_fingerprint(summary: ModuleSummary) -> Fingerprint:
    """Return the features of a network, absent ones with count 0."""
    flow = dataflow(summary)
    features: dict[str, Feature] = {}
    for find_features in _FAMILIES:
        features.update(find_features(flow))
    # A fingerprint is shared by rules, selection and report, so none of them may change it.
    return Fingerprint(MappingProxyType(features))


@cache
def feature_names() -> frozenset[str]:
    """Return the names of all features."""
    # Every family returns all its names for every graph, so the empty graph has them all.
    return frozenset(compute_fingerprint(ModuleSummary((), ())).features)


def check_feature_names(names: Iterable[str], *, place: str) -> None:
    """Refuse a name that no feature has: it would count as a feature that no network has.

    Args:
        names: The names.
        place: The place in a catalog that has them, for the message.

    Raises:
        UserError: A name is unknown; the message suggests one or lists all.
    """
    features = feature_names()
    for name in names:
        if name not in features:
            hint = suggest_name(name, features) or f"features are: {', '.join(sorted(features))}."
            raise UserError(f"{place}: unknown feature `{name}`; {hint}")
