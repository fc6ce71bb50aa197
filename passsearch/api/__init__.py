"""The functions a notebook calls; the command line prints their results."""

from passsearch.api.catalog import catalog_entry
from passsearch.api.common import Progress, session
from passsearch.api.comparison import analyze, compare
from passsearch.api.exploration import check_space, explore
from passsearch.api.tuning import Best, TuneResult, audit, tune

__all__ = [
    "Best",
    "Progress",
    "TuneResult",
    "analyze",
    "audit",
    "catalog_entry",
    "check_space",
    "compare",
    "explore",
    "session",
    "tune",
]
