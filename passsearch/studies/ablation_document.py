"""The rows of an ablation, and the rule by which a pass is worth something."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import get_args

from passsearch.core import Candidate, Failure
from passsearch.evaluate import ACCIDENTS, Built, WorkerEvaluator
from passsearch.measure import LEVEL, Ratio, is_improvement, level_of_looks, mean_ratio
from passsearch.objectives import COMPILE_TIME, THROUGHPUT, Objective
from passsearch.results import (
    Ablation,
    AblationEvidence,
    AblationStep,
    AppliedPipeline,
    Build,
    Device,
    StatedFailure,
    TimedRatio,
    Worth,
)
from passsearch.studies.ablation_records import Readings
from passsearch.studies.ablation_steps import LADDER, WITHOUT, Step, built_steps, changed_kernels
from passsearch.studies.comparison_records import BASELINE

LEAST_SHARE = 0.98
"""Share of the winner's throughput that a shorter form must certainly keep to be called as fast. It is the share of the
baseline's that a search keeps by default."""

WORTHS: tuple[Worth, ...] = get_args(Worth)
GAIN, LOSS, NOTHING, UNDECIDED, NEEDED = WORTHS
WORTHLESS = (NOTHING, LOSS)
"""The worth of a pass. Without one that is needed the network does not build, or the gate refuses its outputs."""

MACHINE_FAILURES = ACCIDENTS | {"timeout"}
"""Kinds of failures that the machine may have caused, so that they say nothing about a pass."""


@dataclass(frozen=True)
class Gain:
    """The effect of a pass, as a ratio and as its inverse, whose intervals differ by rounding only.

    Attributes:
        ratio: Value with the pass over the value without it; ``None`` where it was not measured.
        inverse: The inverse.
        floor: Noise floor of the measurement.
    """

    ratio: Ratio | None
    inverse: Ratio | None
    floor: float = 0.0

    @property
    def worth(self) -> Worth:
        """Return ``GAIN``, ``LOSS``, ``NOTHING`` or ``UNDECIDED``."""
        if self.ratio is None or self.inverse is None:
            return UNDECIDED
        if is_improvement(self.ratio, floor=self.floor):
            return GAIN
        if is_improvement(self.inverse, floor=self.floor):
            return LOSS
        is_close = min(self.ratio.interval.low, self.inverse.interval.low) >= LEAST_SHARE
        return NOTHING if is_close else UNDECIDED


@dataclass(frozen=True)
class AblationRows:
    """Makes the rows of an ablation.

    Attributes:
        steps: The steps.
        evaluator: Evaluator that has built them.
        readings: What was measured.
        reference: The built baseline.
        baseline: The baseline.
        objective: Objective of the run.
    """

    steps: Sequence[Step]
    evaluator: WorkerEvaluator
    readings: Readings
    reference: Built
    baseline: Candidate
    objective: Objective

    @property
    def level(self) -> float:
        """Level of the intervals of gains.

        The probability that any verdict is wrong is at most that of one wrong interval at ``LEVEL``.
        """
        # Two for each step, throughput and compile time, and this at every look.
        return level_of_looks(2 * len(self.steps) * self.readings.looks)

    def speed_worths(self) -> dict[str, Worth]:
        """Return what each pass that was left out is worth by throughput alone, by name of the step that was built."""
        steps = [step for step in self.steps if step.kind == WITHOUT and isinstance(step.outcome, Built)]
        return {step.name: self._speed_worth(step, self._before(step)) for step in steps}

    def row(self, step: Step) -> AblationStep:
        """Return the row of one step."""
        before, outcome = self._before(step), step.outcome
        speed, compiling = self._speed(step, before), self._compile_time(step, before)
        worth = self._worth(step, by_speed=self._speed_worth(step, before), by_compile_time=compiling.worth)
        built = outcome if isinstance(outcome, Built) else None
        number, names = self._kernels(built, before)
        return AblationStep(
            kind=step.kind,
            name=step.name,
            subject=str(step.subject) if step.subject else None,
            passes=tuple(str(each) for each in step.candidate.pipeline.passes),
            throughput=timed(self._throughput(step.name)),
            compile_time=timed(self._compile_ratio(step.candidate, self.baseline)) if built else None,
            latency_s=self._latency_s(step.name),
            fastest_s=self._fastest_s(step.name),
            compile_s=self._compile_s(step.candidate) if built else None,
            gain={THROUGHPUT.name: timed(speed.ratio), COMPILE_TIME.name: timed(compiling.ratio)},
            kernels_changed=number,
            changed_kernels=names,
            same_binary_as=self._same_binary(step) if built else None,
            failure=StatedFailure(**vars(outcome)) if isinstance(outcome, Failure) else None,
            worth=worth,
        )

    def _before(self, step: Step) -> Step | None:
        """Return the step that this one is compared with; the last one of the ladder that was built before it."""
        names = [each.name for each in self.steps]
        if step.kind == WITHOUT:
            return self.steps[names.index(str(step.before))]
        earlier = [each for each in self.steps[: names.index(step.name)] if isinstance(each.outcome, Built)]
        return earlier[-1] if earlier else None

    def _speed_worth(self, step: Step, before: Step | None) -> Worth:
        is_same = self._artifact(step).digest == self._artifact(before).digest
        runs = not self.evaluator.session.cannot_run_reason
        return NOTHING if is_same or not runs else self._speed(step, before).worth

    def _worth(self, step: Step, *, by_speed: Worth, by_compile_time: Worth) -> Worth:
        if isinstance(step.outcome, Failure):
            return NEEDED if step.kind == WITHOUT and step.outcome.kind not in MACHINE_FAILURES else UNDECIDED
        if step.outcome is None:
            return UNDECIDED
        first, second = by_speed, by_compile_time
        if self.objective.is_of_compiles or self.evaluator.session.cannot_run_reason:
            first, second = second, first
        # A pass that leaves the objective alone may still gain something else, which is a reason to keep it.
        return GAIN if first == NOTHING and second == GAIN else first

    def _artifact(self, step: Step | None) -> Built:
        return step.outcome if step and isinstance(step.outcome, Built) else self.reference

    def _speed(self, step: Step, before: Step | None) -> Gain:
        samples, indices = self.readings.samples, self.readings.indices
        if samples is None or step.name not in indices:
            return Gain(None, None)
        this, other = indices[step.name], indices[before.name] if before else BASELINE
        first, second = (this, other) if step.kind == LADDER else (other, this)
        ratio = samples.ratio(first, reference=second, level=self.level)
        return Gain(ratio, samples.ratio(second, reference=first, level=self.level), samples.floor)

    def _compile_time(self, step: Step, before: Step | None) -> Gain:
        if not isinstance(step.outcome, Built):
            return Gain(None, None)
        other = before.candidate if before else self.baseline
        first, second = (step.candidate, other) if step.kind == LADDER else (other, step.candidate)
        level = self.level
        return Gain(self._compile_ratio(first, second, level), self._compile_ratio(second, first, level))

    def _compile_ratio(self, candidate: Candidate, reference: Candidate, level: float = LEVEL) -> Ratio | None:
        return self.readings.compiles.ratio(candidate, reference, level=level)

    def _compile_s(self, candidate: Candidate) -> float | None:
        values = self.readings.compiles.of(candidate)
        return median(values) if values else None

    def _throughput(self, name: str) -> Ratio | None:
        samples, indices = self.readings.samples, self.readings.indices
        return samples.ratio(indices[name]) if samples and name in indices else None

    def _latency_s(self, name: str) -> float | None:
        samples, indices = self.readings.samples, self.readings.indices
        if samples is None or name not in indices:
            return None
        medians = [median(samples.samples(process, indices[name])) for process in samples.processes]
        return mean_ratio([math.log(value) for value in medians]).value

    def _fastest_s(self, name: str) -> float | None:
        """Return the fastest sample, which the times of kernels compare with: they are the fastest as well."""
        samples, indices = self.readings.samples, self.readings.indices
        if samples is None or name not in indices:
            return None
        return min(value for process in samples.processes for value in samples.samples(process, indices[name]))

    def _kernels(self, built: Built | None, before: Step | None) -> tuple[int | None, tuple[str, ...]]:
        """Return how many kernels differ from those of the step before, or of the winner, and their names."""
        hashes = self.evaluator.builder.files.kernel_hashes
        if built and built.digest == self._artifact(before).digest:
            return 0, ()
        new, old = hashes(built) if built else None, hashes(self._artifact(before))
        if new is None or old is None:
            return None, ()
        number, names = changed_kernels(old, new)
        return number, tuple(names)

    def _same_binary(self, step: Step) -> str | None:
        """Return the name of the first step with this step's binary, if there is one before it; or "baseline"."""
        digests = {"baseline": self.reference.digest}
        digests |= {name: built.digest for name, built in built_steps(self.steps).items()}
        first = next(name for name, digest in digests.items() if digest == digests[step.name])
        return None if first == step.name else first


def made_ablation(make: AblationRows, winner: Candidate) -> Ablation:
    """Return an ablation without what it leads to: a shorter form, the times of kernels, and the sentence."""
    rows = tuple(make.row(step) for step in make.steps)
    top = next(step for step in reversed(make.steps) if step.kind == LADDER).candidate
    return Ablation(
        schema_version=1,
        objective=make.objective.name,
        baseline=make.baseline.name,
        passes=tuple(str(step) for step in top.pipeline.passes),
        build=Build.from_json(top.build.to_json()),
        rows=rows,
        worth_nothing=tuple(str(row.subject) for row in rows if row.kind == WITHOUT and row.worth in WORTHLESS),
        complete=make.readings.is_complete,
        measured=_measured(make),
        dropped=(),
        minimal=None,
        kernels=None,
        network=make.evaluator.session.model.source,
        winner=AppliedPipeline(pipeline=str(winner.pipeline), build=Build.from_json(winner.build.to_json())),
        headline="",
    )


def _measured(rows: AblationRows) -> AblationEvidence:
    samples, session = rows.readings.samples, rows.evaluator.session
    floor = samples.floor if samples else math.inf
    return AblationEvidence(
        device=Device.from_json(session.sensors.device),
        target=session.target,
        processes=len(samples.processes) if samples else 0,
        compiles=len(rows.readings.compiles.seconds),
        level=rows.level,
        noise_floor=floor if math.isfinite(floor) else None,
        measured_at="",
    )


def timed(ratio: Ratio | None) -> TimedRatio | None:
    """Return a ratio as ablations state it."""
    return None if ratio is None else TimedRatio.from_json(ratio.to_json())
