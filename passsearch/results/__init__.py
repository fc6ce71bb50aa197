"""Typed records of documents: what commands print with ``--json``, and what the files of a run hold."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from passsearch.results.ablation import (
        Ablation,
        AblationEvidence,
        AblationStep,
        KernelTimes,
        MinimalForm,
        StepKind,
        TimedRatio,
        Worth,
    )
    from passsearch.results.application import Application, AppliedStep
    from passsearch.results.audit import Audit, Check, SequenceGain
    from passsearch.results.batch import BatchResults, BatchStates, CrossRow, FoundRow, JobProgress
    from passsearch.results.bits import KeptBits
    from passsearch.results.candidate import (
        AppliedPipeline,
        Build,
        Candidate,
        Deviation,
        FailedCandidate,
        Latency,
        Measurement,
        Memory,
        NamedPipeline,
        Outputs,
        Reading,
        StatedFailure,
    )
    from passsearch.results.catalog import CatalogCheck, CheckedEntry, CheckedSequence
    from passsearch.results.comparison import ComparedPipeline, Comparison, FailedPipeline, Pair
    from passsearch.results.compilation import ChosenPipeline, Compilation, CompiledSizes, SizeBetween, TriedPipeline
    from passsearch.results.composition import ComposedPipeline, NoComposition, PredictedTime, RegionDecision
    from passsearch.results.corpus import Corpus, CorpusNetwork, CorpusProcessor, CorpusSearch
    from passsearch.results.network import Input, Model, ModelCase, NetworkIdentity, Reference, ValueRange
    from passsearch.results.parts import Compiler, Device, Interval, Outcome, Ratios, StatedRatio, says_nothing
    from passsearch.results.precision import (
        LayerPrecision,
        LayerStorage,
        LayerWorth,
        NoPrecision,
        PrecisionDecision,
        PrecisionPoint,
        PrecisionWorth,
        StoredWeights,
        UniformPrecision,
    )
    from passsearch.results.profile import (
        BlockTime,
        KernelCall,
        MeasuredPeaks,
        Profile,
        ProfiledKernel,
        ProfiledPipeline,
    )
    from passsearch.results.recommended import NetworkRecommendation, SearchBound
    from passsearch.results.record import Record
    from passsearch.results.regression import (
        Exchange,
        KernelDifference,
        MatchedBy,
        Regression,
        RegressionSide,
        RegressionVerdict,
    )
    from passsearch.results.relations import MeasuredRelations, PassRelation, PassRelations, RelatedNetwork
    from passsearch.results.rivals import FailedRival, MeanLatency, Rival, RivalComparison
    from passsearch.results.run import (
        BestOfCatalog,
        CaseResult,
        ClassLabel,
        Contender,
        Decision,
        DeploymentRecord,
        RejectedWinner,
        Reproducer,
        RunLimits,
        RunResult,
        SearchedSpace,
        Source,
        Verdict,
        Winner,
    )
    from passsearch.results.setup import MeasuredNetwork
    from passsearch.results.shown_latency import (
        BUSY_PERCENT,
        contradicts,
        disturbed_percent,
        is_disturbed,
        is_withheld,
        winner_latency,
    )
    from passsearch.results.space import (
        CertificateCheck,
        ClosedPart,
        ExploredSpace,
        PassPair,
        SequenceCount,
        SpaceGraph,
    )
    from passsearch.results.trial import KernelTrial, TrialTimes, TriedKernel

__all__ = [
    "BUSY_PERCENT",
    "Ablation",
    "AblationEvidence",
    "AblationStep",
    "Application",
    "AppliedPipeline",
    "AppliedStep",
    "Audit",
    "BatchResults",
    "BatchStates",
    "BestOfCatalog",
    "BlockTime",
    "Build",
    "Candidate",
    "CaseResult",
    "CatalogCheck",
    "CertificateCheck",
    "Check",
    "CheckedEntry",
    "CheckedSequence",
    "ChosenPipeline",
    "ClassLabel",
    "ClosedPart",
    "ComparedPipeline",
    "Comparison",
    "Compilation",
    "CompiledSizes",
    "Compiler",
    "ComposedPipeline",
    "Contender",
    "Corpus",
    "CorpusNetwork",
    "CorpusProcessor",
    "CorpusSearch",
    "CrossRow",
    "Decision",
    "DeploymentRecord",
    "Deviation",
    "Device",
    "Exchange",
    "ExploredSpace",
    "FailedCandidate",
    "FailedPipeline",
    "FailedRival",
    "FoundRow",
    "Input",
    "Interval",
    "JobProgress",
    "KeptBits",
    "KernelCall",
    "KernelDifference",
    "KernelTimes",
    "KernelTrial",
    "Latency",
    "LayerPrecision",
    "LayerStorage",
    "LayerWorth",
    "MatchedBy",
    "MeanLatency",
    "MeasuredNetwork",
    "MeasuredPeaks",
    "MeasuredRelations",
    "Measurement",
    "Memory",
    "MinimalForm",
    "Model",
    "ModelCase",
    "NamedPipeline",
    "NetworkIdentity",
    "NetworkRecommendation",
    "NoComposition",
    "NoPrecision",
    "Outcome",
    "Outputs",
    "Pair",
    "PassPair",
    "PassRelation",
    "PassRelations",
    "PrecisionDecision",
    "PrecisionPoint",
    "PrecisionWorth",
    "PredictedTime",
    "Profile",
    "ProfiledKernel",
    "ProfiledPipeline",
    "Ratios",
    "Reading",
    "Record",
    "Reference",
    "RegionDecision",
    "Regression",
    "RegressionSide",
    "RegressionVerdict",
    "RejectedWinner",
    "RelatedNetwork",
    "Reproducer",
    "Rival",
    "RivalComparison",
    "RunLimits",
    "RunResult",
    "SearchBound",
    "SearchedSpace",
    "SequenceCount",
    "SequenceGain",
    "SizeBetween",
    "Source",
    "SpaceGraph",
    "StatedFailure",
    "StatedRatio",
    "StepKind",
    "StoredWeights",
    "TimedRatio",
    "TrialTimes",
    "TriedKernel",
    "TriedPipeline",
    "UniformPrecision",
    "ValueRange",
    "Verdict",
    "Winner",
    "Worth",
    "contradicts",
    "disturbed_percent",
    "is_disturbed",
    "is_withheld",
    "says_nothing",
    "winner_latency",
]

# A name is looked up in this order: first in the modules that the others import.
_MODULES = (
    "record",
    "parts",
    "candidate",
    "network",
    "setup",
    "regression",
    "rivals",
    "precision",
    "bits",
    "composition",
    "run",
    "shown_latency",
    "catalog",
    "application",
    "audit",
    "compilation",
    "recommended",
    "corpus",
    "relations",
    "comparison",
    "space",
    "profile",
    "batch",
    "ablation",
    "trial",
)


# Modules load on first use: to make all records takes 60 ms, and most commands need a few of them.
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
