"""The search: the space, the samplers, the study loop, and the confirmation of a winner."""

from passsearch.search.confirm import confirm, require_repetitions
from passsearch.search.confirmation import Confirmation
from passsearch.search.corpus_recommendation import CorpusAdvice
from passsearch.search.document import Document
from passsearch.search.evaluation import BaselineFailed
from passsearch.search.execution import Progress
from passsearch.search.options import RunOptions
from passsearch.search.pass_selection import (
    NetworkAnalysis,
    analyze_network,
    check_features,
    explored_passes,
    first_trials,
    named_candidate,
    starting_sequences,
    with_prerequisites,
)
from passsearch.search.precision import Gain, PrecisionChooser
from passsearch.search.precision_request import PrecisionRequest, precision_request
from passsearch.search.recommended_sequence import (
    corpus_advice,
    feature_counts,
    recommended_sequences,
    sequences_in_catalog_order,
)
from passsearch.search.records import Counts, Scored, SearchOutcome
from passsearch.search.repetition import Pairing
from passsearch.search.run import Run
from passsearch.search.scoring import Scoring
from passsearch.search.session_settings import session_settings
from passsearch.search.shortlist import shortlist
from passsearch.search.space import BUILDS, Space
from passsearch.search.study import Search

__all__ = [
    "BUILDS",
    "BaselineFailed",
    "Confirmation",
    "CorpusAdvice",
    "Counts",
    "Document",
    "Gain",
    "NetworkAnalysis",
    "Pairing",
    "PrecisionChooser",
    "PrecisionRequest",
    "Progress",
    "Run",
    "RunOptions",
    "Scored",
    "Scoring",
    "Search",
    "SearchOutcome",
    "Space",
    "analyze_network",
    "check_features",
    "confirm",
    "corpus_advice",
    "explored_passes",
    "feature_counts",
    "first_trials",
    "named_candidate",
    "precision_request",
    "recommended_sequences",
    "require_repetitions",
    "sequences_in_catalog_order",
    "session_settings",
    "shortlist",
    "starting_sequences",
    "with_prerequisites",
]
