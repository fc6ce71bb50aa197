"""One candidate from its pipeline to its samples: passes applied, IR built, outputs verified, artifacts timed.

A search knows the protocol ``Evaluator`` only. ``WorkerEvaluator`` implements it by compiler processes; ``testing``
holds implementations that need no compiler.
"""

from passsearch.evaluate.apply import Applier
from passsearch.evaluate.build import Builder
from passsearch.evaluate.catalog_check import check_entries
from passsearch.evaluate.class_loss import class_loss
from passsearch.evaluate.closure import FAILED, UNTRIED, Closure
from passsearch.evaluate.code_digest import dialect_digest
from passsearch.evaluate.devices import device_lock, device_of
from passsearch.evaluate.evaluator import WorkerEvaluator
from passsearch.evaluate.exploration import Exploration, ExplorationLimits, Growth
from passsearch.evaluate.facts import ACCIDENTS
from passsearch.evaluate.import_proof import WrongImport
from passsearch.evaluate.kernel_store import NetworkKernels, Region
from passsearch.evaluate.model_import import check_saved_network, find_options
from passsearch.evaluate.plans import MeasurementPlans
from passsearch.evaluate.pool import LOG, OVERTIME
from passsearch.evaluate.protocols import Evaluator, Explorer, KernelProfiler
from passsearch.evaluate.recorded_edges import RecordedEdge, recorded_edges
from passsearch.evaluate.records import Built, FreshCompile, Network
from passsearch.evaluate.rounded import RoundedChoice, RoundedOutputs, RoundedWeights, used_budget
from passsearch.evaluate.sequence_check import check_sequences
from passsearch.evaluate.session import (
    AUDIT_CASES,
    DEPLOYMENT_SEED,
    OUTPUT_CASES,
    RecordedReference,
    Session,
    WorkerLimits,
    catalog_files,
    open_session,
)
from passsearch.evaluate.signature import BUILD, is_signed, sign
from passsearch.evaluate.state_graph import Edge, EdgeKey, StateGraph
from passsearch.evaluate.summary_cache import keep_summary, recall_summary
from passsearch.evaluate.timed_records import (
    CandidateSamples,
    Conditions,
    Consumed,
    NetworkProfile,
    PlaceTimes,
    ProcessSamples,
    Samples,
    TimedArtifacts,
    TimedSamples,
    TimingRequest,
    summarize_conditions,
)
from passsearch.evaluate.verify import DEVIATION, UNSEEN_FACTOR, Agreement

__all__ = [
    "ACCIDENTS",
    "AUDIT_CASES",
    "BUILD",
    "DEPLOYMENT_SEED",
    "DEVIATION",
    "FAILED",
    "LOG",
    "OUTPUT_CASES",
    "OVERTIME",
    "UNSEEN_FACTOR",
    "UNTRIED",
    "Agreement",
    "Applier",
    "Builder",
    "Built",
    "CandidateSamples",
    "Closure",
    "Conditions",
    "Consumed",
    "Edge",
    "EdgeKey",
    "Evaluator",
    "Exploration",
    "ExplorationLimits",
    "Explorer",
    "FreshCompile",
    "Growth",
    "KernelProfiler",
    "MeasurementPlans",
    "Network",
    "NetworkKernels",
    "NetworkProfile",
    "PlaceTimes",
    "ProcessSamples",
    "RecordedEdge",
    "RecordedReference",
    "Region",
    "RoundedChoice",
    "RoundedOutputs",
    "RoundedWeights",
    "Samples",
    "Session",
    "StateGraph",
    "TimedArtifacts",
    "TimedSamples",
    "TimingRequest",
    "WorkerEvaluator",
    "WorkerLimits",
    "WrongImport",
    "catalog_files",
    "check_entries",
    "check_saved_network",
    "check_sequences",
    "class_loss",
    "device_lock",
    "device_of",
    "dialect_digest",
    "find_options",
    "is_signed",
    "keep_summary",
    "open_session",
    "recall_summary",
    "recorded_edges",
    "sign",
    "summarize_conditions",
    "used_budget",
]
