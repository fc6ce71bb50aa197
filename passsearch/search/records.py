"""Records of a search: its evaluated candidates, its counts, and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from passsearch.core import Candidate, Failure
from passsearch.evaluate import Built, Conditions, Samples
from passsearch.measure import Consumption, Ratio
from passsearch.results import PrecisionDecision
from passsearch.search.composition_records import Composition

Pair: TypeAlias = tuple[Consumption, Consumption]
"""Consumption of the baseline and of the candidate that ran in turns with it."""

ProposalSource: TypeAlias = Literal["sampler", "explored state"]
"""Kind of what a strategy proposes: sequences, or states of the graph."""

TIME_LIMIT = "time limit"
"""Reason why a search proposed no more: its share of the time limit was over."""


@dataclass(frozen=True)
class Reference:
    """The artifact beside which a search times its candidates.

    Attributes:
        built: The baseline, or a candidate that is so much faster that timing the baseline again would waste time.
        gain: Its throughput as a multiple of the baseline's.
        latency_s: Its fastest sample; ``None`` while none is known.
    """

    built: Built
    gain: float = 1.0
    latency_s: float | None = None


@dataclass(frozen=True)
class Scored:
    """One evaluated candidate.

    Attributes:
        candidate: The cheapest known pipeline that reaches its state, with its build options.
        built: Its artifact.
        ratio: Throughput as a multiple of the baseline's, from interleaved rounds with a reference; ``None`` where
            nothing runs.
        latency_s: Its samples.
        compile_s: Seconds to apply and build it.
        apply_s: Seconds to apply it.
        batch: Samples per inference.
        conditions: Conditions of the timing process.
        process_ratios: Throughput ratio in each process of the shortlist.
        consumption: Consumption of the baseline and of the candidate, where it is an objective.
    """

    candidate: Candidate
    built: Built
    ratio: Ratio | None
    latency_s: Samples
    compile_s: float
    apply_s: float
    batch: int = 1
    conditions: Conditions = field(default_factory=dict)
    process_ratios: tuple[float, ...] = ()
    consumption: Pair | None = None


@dataclass
class Counts:
    """Counted sequences and failures of a search so far.

    Attributes:
        proposed: Number of proposed sequences, without baselines.
        evaluated: Number of evaluated candidates, without baselines.
        duplicates: Number of sequences that led to a candidate which had been evaluated already.
        invalid: Number of sequences with a pass that failed.
        failures: Failed candidates, each with its failure.
    """

    proposed: int = 0
    evaluated: int = 0
    duplicates: int = 0
    invalid: int = 0
    failures: list[tuple[Candidate, Failure]] = field(default_factory=list)


@dataclass(frozen=True)
class SpaceCoverage:
    """The part of the space that a search has seen.

    Attributes:
        states: Number of different IRs.
        closed: True if every sequence of the space's passes leads to a known state.
        closed_without: Names of the passes without which the space is closed; empty if it is closed with them, or not
            even without them.
        sampler: Name of the strategy that proposed candidates.
        source: Kind of what the strategy proposed, as ``results.Source`` names it.
        ended: Reason why it proposed no more.
        idle: Names of the passes that were applied and changed no state.
        untried: Names of the passes that the user asked for and that were not applied.
    """

    states: int
    closed: bool
    closed_without: tuple[str, ...]
    sampler: str
    source: ProposalSource
    ended: str
    idle: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchOutcome:
    """The result of a search, from which documents are made.

    Attributes:
        baseline: The baseline to beat, as measured against itself.
        scored: Evaluated candidates and baselines by key of the build.
        counts: Counts.
        coverage: The part of the space that was seen.
        composition: The pipeline composed of decisions on regions and kernels, or why there is none; ``None`` where
            nothing could be decided on.
        unoffered: Keys of candidates that no Pareto front has: a pass was found nondeterministic after they were
            evaluated, or their bits are not those that are to be kept.
        precision: The precisions of weights, or why none was decided; ``None`` where the user asked for float32.
    """

    baseline: Scored
    scored: Mapping[str, Scored]
    counts: Counts
    coverage: SpaceCoverage
    composition: Composition | Failure | None = None
    unoffered: frozenset[str] = frozenset()
    precision: PrecisionDecision | Failure | None = None
