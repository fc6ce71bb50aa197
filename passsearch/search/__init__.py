"""The search space, the state graph, the study loop and the confirmation of its winner."""

from passsearch.search.confirm import Confirmation, confirm
from passsearch.search.records import Plan, Scored, Tally
from passsearch.search.shortlist import shortlist
from passsearch.search.space import BUILDS, Space
from passsearch.search.study import BaselineFailed, Search

__all__ = [
    "BUILDS",
    "BaselineFailed",
    "Confirmation",
    "Plan",
    "Scored",
    "Search",
    "Space",
    "Tally",
    "confirm",
    "shortlist",
]
