"""The job of one dialect: a toolchain, and passes that are cheap, change nothing, or misbehave."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import short_plans

import passsearch
from passsearch.dialects import dialect
from passsearch.toolchain import Toolchain


@dataclass(frozen=True)
class Job:
    """A toolchain of one dialect, and the names by which the tests know passes of the dialect.

    Attributes:
        toolchain: The toolchain.
        cheap: Passes that apply in no time; the first one changes the tiny network.
        trials: Number of candidates that these passes make of the tiny network, without the baselines.
        no_op: A pass that changes nothing in the tiny network.
        sequence: A sequence of the catalog.
        needed: A pass that the sequence contains or needs.
        bad_passes: Module with passes that misbehave.
        replaced: The operator that the pass `Lie` replaces.
    """

    toolchain: Toolchain
    cheap: tuple[str, ...]
    trials: int
    no_op: str
    sequence: str
    needed: str
    bad_passes: str
    replaced: str

    @property
    def lowest_baseline(self) -> str:
        """Name of the baseline that optimises nothing."""
        return dialect(self.toolchain.dialect).baselines[0].name

    @property
    def default_baseline(self) -> str:
        """Name of the baseline to beat."""
        return dialect(self.toolchain.dialect).default_baseline


JOBS: dict[str, tuple[Any, ...]] = {
    # 4 IRs at 2 levels; one of the 8 builds is the default baseline.
    "relay": (
        ("SimplifyInference", "FuseOps"),
        7,
        "DeadCodeElimination",
        "AS-0",
        "SimplifyInference",
        "bad_passes",
        "nn.relu",
    ),
    # 4 IRs at the only level that is searched; one of them is the lowest baseline.
    "relax": (
        ("DecomposeOpsForInference", "LegalizeOps"),
        3,
        "AdjustMatmulOrder",
        "simplify-schedule-cpu",
        "DecomposeOpsForInference",
        "bad_relax_passes",
        "relax.nn.relu",
    ),
}


MOSTLY_RELAX = pytest.mark.parametrize("job", ["relax", pytest.param("relay", marks=pytest.mark.slow)], indirect=True)
"""For tests of code that is the same for all dialects: on Relax always, on Relay, which takes longer, as slow tests."""


def tune_and_confirm(job: Job, network: Path, run: Path) -> passsearch.TuneResult:
    """Measure every candidate that the cheap passes make, and confirm the winner."""
    return short_plans.tune(
        network, toolchain=job.toolchain.name, trials=job.trials, confirm=2, passes=job.cheap, out=run
    )
