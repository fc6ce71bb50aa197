"""The records of ``regress``: what is compared, and what is known of it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from passsearch.core import UNLIMITED, CheckInputs, TensorType, TimeLimit
from passsearch.engines import EnginePlan, EngineRecord, EngineSpec, EngineTiming
from passsearch.results import Exchange, KernelDifference, RegressionVerdict, StatedRatio

BEFORE, AFTER = "before", "after"
"""Names of both sides among the engines of a timing."""

RACE_S = 5.0
"""``EnginePlan.race_s``."""

LEAST_EXPLAINED = 0.2
"""Share of a slowdown below which an exchange explains nothing."""


@dataclass(frozen=True)
class Variant:
    """The slower side with one thing of the other.

    Attributes:
        text: The exchange in words.
        kind: What is exchanged.
        build: Makes the engine; raises ``EngineFailure`` if it does not compile.
        size: Number of passes or settings that are exchanged together.
    """

    text: str
    kind: Literal["pass", "setting"]
    build: Callable[[str], EngineSpec]
    size: int = 1


@dataclass(frozen=True)
class RegressionQuestion:
    """Two engines on one network.

    Attributes:
        names: The user's texts of both.
        specs: Both engines, under the names ``BEFORE`` and ``AFTER``; the reason in place of one that does not compile.
        references: Engines whose outputs are right.
        types: The network's inputs.
        inputs: Inputs of the check and the timing.
        threads: Threads of each side.
        limit: Largest deviation of outputs.
        batch: Items of an inference.
        folder: Folder for logs.
        threshold: Slowdown that counts, as a share.
        variants: The exchanges that there are.
        no_variants: Why there are none; empty if there are some.
        time_limit: The time limit.
        progress: Callback; gets the current step in words, and the number of finished steps and of all.
    """

    names: tuple[str, str]
    specs: tuple[EngineSpec, EngineSpec | str]
    references: Sequence[EngineSpec]
    types: Mapping[str, TensorType]
    inputs: CheckInputs
    threads: int
    limit: float
    batch: int
    folder: Path
    threshold: float
    variants: Sequence[Variant] = ()
    no_variants: str = ""
    time_limit: TimeLimit = UNLIMITED
    progress: Callable[[str, int, int], None] = lambda text, done, total: None

    def plan(self, *, processes: int, rounds: int, seed: int, kernel_runs: int = 0) -> EnginePlan:
        """Return the plan of a timing; each has an order of its own."""
        return EnginePlan(
            self.threads,
            processes,
            rounds,
            slow_processes=processes,
            limit=self.limit,
            seed=seed,
            kernel_runs=kernel_runs,
            race_s=RACE_S,
        )

    def timing(self, specs: Sequence[EngineSpec], plan: EnginePlan) -> EngineTiming:
        """Return a timing of engines."""
        folder = self.folder / f"timing-{plan.seed}"
        return EngineTiming(
            specs, references=self.references, types=self.types, plan=plan, folder=folder, inputs=self.inputs
        )


@dataclass
class RegressionFindings:
    """What is known so far.

    Attributes:
        timing: The first measurement.
        verdict: The answer.
        failure: Why the second side fails; empty if it does not.
        ratios: Times of the second side over those of the first.
        confirmation: The same in further processes.
        kernels: Kernels by their difference.
        no_kernels: Why there are none.
        outside_s: Seconds of the difference that no kernel shows.
        exchanges: Exchanges, the best first.
        no_exchanges: Why there are none, or no further ones.
        remarks: What a reader must know of the comparison, as sentences without a full stop.
    """

    timing: EngineTiming
    verdict: RegressionVerdict = "no certain difference"
    failure: str = ""
    ratios: Mapping[str, StatedRatio | None] = field(default_factory=dict)
    confirmation: Mapping[str, StatedRatio] | None = None
    kernels: tuple[KernelDifference, ...] | None = None
    no_kernels: str = "kernels are compared where the second side is certainly slower"
    outside_s: float | None = None
    exchanges: tuple[Exchange, ...] | None = None
    no_exchanges: str = "exchanges are tried where the second side is certainly slower"
    remarks: tuple[str, ...] = ()

    def fail(self, failure: str) -> None:
        """Note why the second side fails; what was measured stays."""
        self.verdict, self.failure = "fails", failure
        self.no_kernels = self.no_exchanges = "the second side has no result"

    @property
    def records(self) -> Mapping[str, EngineRecord]:
        """The measurement of each side."""
        return {record.spec.name: record for record in self.timing.comparison.records}

    @property
    def processes(self) -> int:
        """Processes of the first measurement."""
        return len(self.timing.comparison.disturbances)

    @property
    def regressed(self) -> bool:
        """True if the second side is certainly slower, or fails."""
        return self.verdict in ("slower", "fails")

    @property
    def others_percent(self) -> float:
        """Share of the cores' time that other processes and the host took."""
        rounds = [each for process in self.timing.comparison.disturbances for each in process]
        return 100 * fmean([each.foreign + each.steal for each in rounds] or [0.0])

    @property
    def named(self) -> dict[str, str | None]:
        """The exchange that explains most, and the kernel that lost most."""
        certain = [each for each in self.exchanges or () if each.certain and (each.explained or 0) >= LEAST_EXPLAINED]
        # One pass before several that explain hardly more. What explains more than all is noise, or another gain.
        best = min(1.0, max((each.explained or 0 for each in certain), default=0.0))
        exchange = min(
            (each for each in certain if (each.explained or 0) >= 0.9 * best),
            key=lambda each: (each.size, -min(1.0, each.explained or 0), len(each.text)),
            default=None,
        )
        return {"exchange": exchange.text if exchange else None, "kernel": slowest_kernel(self.kernels or ())}


def slowest_kernel(kernels: Sequence[KernelDifference]) -> str | None:
    """Return the operator that lost most on all shapes together, with its shape if it lost on one; ``None`` if none.

    Kernels that only one side has are left out: what they compute may be part of another kernel of the other side.
    """
    by_operator: dict[str, list[KernelDifference]] = {}
    for kernel in kernels:
        if kernel.matched_by is not None:
            by_operator.setdefault(kernel.operator, []).append(kernel)
    net_s = {name: math.fsum(row.difference_s for row in rows) for name, rows in by_operator.items()}
    operator = max(net_s, key=lambda name: net_s[name], default="")
    if net_s.get(operator, 0.0) <= 0:
        return None
    lost = [row for row in by_operator[operator] if row.difference_s > 0]
    return f"{operator} {lost[0].shape or ''}".strip() if len(lost) == 1 else f"{operator}, on {len(lost)} shapes"
