"""From a network's dataflow graph to its features, and from features to architecture classes."""

from passsearch.analysis.classes import UNKNOWN, ClassRule, classify
from passsearch.analysis.fingerprint import feature_names, fingerprint

__all__ = ["UNKNOWN", "ClassRule", "classify", "feature_names", "fingerprint"]
