"""One candidate from its pipeline to its samples: passes applied, IR built, outputs verified, artifacts timed."""

from passsearch.evaluate.apply import Applier, Subject
from passsearch.evaluate.evaluator import FINAL_PLAN, PROCESSES, SEARCH_PLAN, Built, Evaluator
from passsearch.evaluate.session import Session, device_of, open_session
from passsearch.evaluate.state_graph import Edge, StateGraph

__all__ = [
    "FINAL_PLAN",
    "PROCESSES",
    "SEARCH_PLAN",
    "Applier",
    "Built",
    "Edge",
    "Evaluator",
    "Session",
    "StateGraph",
    "Subject",
    "device_of",
    "open_session",
]
