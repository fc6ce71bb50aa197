"""What a notebook calls; the command line prints what they return."""

from passsearch.api.compare import analyze, compare
from passsearch.api.explore import check_space, explore
from passsearch.api.tune import Best, TuneResult, audit, tune

__all__ = ["Best", "TuneResult", "analyze", "audit", "check_space", "compare", "explore", "tune"]
