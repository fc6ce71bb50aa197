"""Analysis of a network's dataflow graph: its features, and the architecture classes that follow from them."""

from passsearch.analysis.blocks import parts_of_calls
from passsearch.analysis.classes import ClassRule, classify
from passsearch.analysis.fingerprint import check_feature_names, compute_fingerprint, feature_names
from passsearch.analysis.input_ranges import input_ranges

__all__ = [
    "ClassRule",
    "check_feature_names",
    "classify",
    "compute_fingerprint",
    "feature_names",
    "input_ranges",
    "parts_of_calls",
]
