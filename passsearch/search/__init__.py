"""The search space, the state graph, the study loop and the confirmation of its winner."""

from passsearch.search.applying import Applier, Subject
from passsearch.search.confirm import Confirmation, confirm
from passsearch.search.evaluation import FINAL_PLAN, PROCESSES, SEARCH_PLAN, Built, Evaluator
from passsearch.search.plan import Plan, Scored, Tally
from passsearch.search.shortlist import shortlist
from passsearch.search.space import BUILDS, Space
from passsearch.search.states import Edge, StateGraph
from passsearch.search.study import BaselineFailed, Search

__all__ = [
    "BUILDS",
    "FINAL_PLAN",
    "PROCESSES",
    "SEARCH_PLAN",
    "Applier",
    "BaselineFailed",
    "Built",
    "Confirmation",
    "Edge",
    "Evaluator",
    "Plan",
    "Scored",
    "Search",
    "Space",
    "StateGraph",
    "Subject",
    "Tally",
    "confirm",
    "shortlist",
]
