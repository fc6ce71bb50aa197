"""The search: the space, the samplers, the study loop, the confirmation of a winner, comparisons and audits."""

from passsearch.search.ablation import ablate_run
from passsearch.search.audit import audit_run, recorded_sequence
from passsearch.search.certificate import check_certificate, read_closure, space_document
from passsearch.search.comparison import compare_candidates
from passsearch.search.comparison_records import CACHES, CF22, PAIRED, PROTOCOLS, ComparisonOptions, Side
from passsearch.search.confirm import confirm, require_repetitions
from passsearch.search.confirmation import Confirmation
from passsearch.search.document import Document, toolchain_document
from passsearch.search.evaluation import BaselineFailed
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
from passsearch.search.profiling import profile_candidates
from passsearch.search.recommended_sequence import recommended_sequences
from passsearch.search.records import Scored, SearchOutcome, Tally
from passsearch.search.repetition import Pairing
from passsearch.search.run import Progress, Run
from passsearch.search.schedule_learning import learn_schedules
from passsearch.search.scoring import Scoring
from passsearch.search.session_settings import session_settings
from passsearch.search.shortlist import shortlist
from passsearch.search.space import BUILDS, Space
from passsearch.search.study import Search

__all__ = [
    "BUILDS",
    "CACHES",
    "CF22",
    "PAIRED",
    "PROTOCOLS",
    "BaselineFailed",
    "ComparisonOptions",
    "Confirmation",
    "Document",
    "NetworkAnalysis",
    "Pairing",
    "Progress",
    "Run",
    "RunOptions",
    "Scored",
    "Scoring",
    "Search",
    "SearchOutcome",
    "Side",
    "Space",
    "Tally",
    "ablate_run",
    "analyze_network",
    "audit_run",
    "check_certificate",
    "check_features",
    "compare_candidates",
    "confirm",
    "explored_passes",
    "first_trials",
    "learn_schedules",
    "named_candidate",
    "profile_candidates",
    "read_closure",
    "recommended_sequences",
    "recorded_sequence",
    "require_repetitions",
    "session_settings",
    "shortlist",
    "space_document",
    "starting_sequences",
    "toolchain_document",
    "with_prerequisites",
]
