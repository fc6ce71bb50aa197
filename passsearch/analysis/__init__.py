"""Analysis of a network's dataflow graph: its features, and the architecture classes that follow from them."""

from passsearch.analysis.classes import ClassRule, classify
from passsearch.analysis.fingerprint import feature_names, fingerprint

__all__ = ["ClassRule", "classify", "feature_names", "fingerprint"]
