"""What a notebook calls; the command line prints what they return."""

from passsearch.api.comparing import analyze, compare
from passsearch.api.space import check_space, explore
from passsearch.api.tuning import Best, TuneResult, audit, tune

__all__ = ["Best", "TuneResult", "analyze", "audit", "check_space", "compare", "explore", "tune"]
