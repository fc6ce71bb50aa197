"""What a search is asked to do, and what it keeps of what it has done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from passsearch.core import Candidate, Failure, Objective
from passsearch.evaluate.evaluator import Built
from passsearch.measure import Ratio
from passsearch.search.samplers import AUTO


@dataclass(frozen=True)
class Scored:
    """One evaluated candidate.

    Attributes:
        candidate: The cheapest known pipeline that reaches its state, with its build options.
        built: Its artifact.
        ratio: Throughput as a multiple of the baseline's, from interleaved rounds; ``None`` where nothing runs.
        latency_s: Its samples.
        baseline_latency_s: The baseline's samples of the same rounds.
        compile_s: Seconds to apply and build it.
        apply_s: The pipeline's part of that.
        batch: Samples per inference.
        conditions: As the timing process noted them.
        process_ratios: The shortlist's throughput ratio in each of its processes.
        consumed: What the baseline and the candidate consumed in turn, where that is an objective.
    """

    candidate: Candidate
    built: Built
    ratio: Ratio | None
    latency_s: tuple[float, ...]
    baseline_latency_s: tuple[float, ...]
    compile_s: float
    apply_s: float
    batch: int = 1
    conditions: dict[str, object] = field(default_factory=dict)
    process_ratios: tuple[float, ...] = ()
    consumed: tuple[Mapping[str, Any], ...] = ()


@dataclass
class Tally:
    """What a search has gone through so far."""

    asked: int = 0
    evaluated: int = 0
    duplicates: int = 0
    invalid: int = 0
    failures: list[tuple[Candidate, Failure]] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a search is asked to do.

    Attributes:
        objectives: One, or two for a Pareto front.
        trials: Candidates to evaluate beyond the baselines; sequences that lead to a known one are free.
        timeout_s: Wall time for the whole run, ``None`` for no limit.
        seed: Seed of the sampler.
        keep_throughput: Least throughput, as a share of the baseline's, where throughput is not the objective.
        sampler: Name of the strategy.
        explore_s: Longest time for closing the space before the sampler starts; 0 explores as the sampler asks.
        compilers: Processes that apply passes side by side.
    """

    objectives: tuple[Objective, ...]
    trials: int
    timeout_s: float | None
    seed: int
    keep_throughput: float
    sampler: str = AUTO
    explore_s: float = 0.0
    compilers: int = 1
