"""The ablation of a run's winner: what each of its passes is worth, measured as a comparison is."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import passsearch.results as results
from passsearch.core import Candidate, Failure, Pipeline, TimeLimit
from passsearch.evaluate import ACCIDENTS, Built, WorkerEvaluator
from passsearch.measure import Ratio, level_of_looks
from passsearch.objectives import Objective, recorded_objective
from passsearch.results import (
    AppliedPipeline,
    DeploymentRecord,
    KernelTimes,
    MinimalForm,
    NoPrecision,
    PrecisionDecision,
    RunResult,
)
from passsearch.studies.ablation_document import (
    LEAST_SHARE,
    NOTHING,
    UNDECIDED,
    WORTHLESS,
    AblationRows,
    made_ablation,
    timed,
)
from passsearch.studies.ablation_precision import CUT, precision_worth
from passsearch.studies.ablation_records import CompileRounds, Readings, compile_key
from passsearch.studies.ablation_steps import LADDER, WITHOUT, Step, ablation_steps, built_steps, shortest_form
from passsearch.studies.comparison import built_baseline, time_contenders
from passsearch.studies.comparison_records import (
    BASELINE,
    ComparisonOptions,
    ComparisonSamples,
    Contender,
    Side,
)

FIRST_LOOK, LOOK_STEP = 5, 2
"""Number of timing processes after which an ablation may end once all is decided, and the number until the next look.
With fewer processes Student's t of these levels is so wide that next to nothing is decided."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ablation:
    """One ablation: the evaluator, the winner, the baseline and the time that is left.

    Attributes:
        side: An evaluator of the network that the run saved, as comparisons take it.
        baseline: The baseline.
        winner: The winner.
        objective: Objective of the run.
        progress: Callback; gets the current step in words, the number of finished pipelines and that of all.
        time_limit: The time limit.
        until_decided: True to end as soon as it is decided what every pass is worth. Then only those pipelines are
            compiled afresh whose compile time can still change that.
        decision: What the run decided on the precision of weights.
    """

    side: Side
    baseline: Candidate
    winner: Candidate
    objective: Objective
    progress: Callable[[str, int, int], None]
    time_limit: TimeLimit
    until_decided: bool = False
    decision: NoPrecision | PrecisionDecision | None = None

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of timing processes after which the measurement may end."""
        most = self.evaluator.plans.comparison_processes
        return (*range(FIRST_LOOK, most, LOOK_STEP), most) if self.until_decided else (most,)

    @property
    def evaluator(self) -> WorkerEvaluator:
        """The evaluator."""
        return self.side.evaluator

    def execute(self) -> results.Ablation:
        """Ablate the winner.

        Raises:
            UserError: Baseline or winner cannot be built any more.
            EnvironmentFault: The machine fails.
        """
        short, dropped = shortest_form(self.winner.pipeline, self.evaluator.reach)
        _log.info("%d of %d passes change the IR of the winner", len(short), len(self.winner.pipeline))
        reference = built_baseline(self.evaluator, self.baseline, progress=lambda text: self.progress(text, 0, 0))
        shortest = replace(self.winner, pipeline=short, name="")
        steps = self._build(ablation_steps(shortest))
        # Before the measurement, which takes all the time that is left.
        kernels = self._kernel_times(shortest)
        ablation = made_ablation(self._measure(steps, reference), self.winner)
        # A pass that occurs twice stays if either occurrence is worth something.
        kept = {row.subject for row in ablation.steps(WITHOUT) if row.worth not in WORTHLESS}
        minimal = self._minimal(shortest, reference, worthless=frozenset(ablation.worth_nothing) - kept)
        self.progress("rounding weights", 0, 0)
        precision = precision_worth(self.decision, self.winner.pipeline, self.evaluator, time_limit=self.time_limit)
        return replace(
            ablation,
            complete=ablation.complete and (precision is None or precision.failure != CUT),
            until_decided=self.until_decided,
            dropped=tuple(str(step) for step in dropped),
            minimal=minimal,
            kernels=kernels,
            precision=precision,
        )

    def _build(self, steps: Sequence[Step]) -> list[Step]:
        """Build the steps; those that the time does not suffice for stay without an outcome."""
        top = [step.name for step in steps if step.kind == LADDER][-1]
        built: list[Step] = []
        for number, step in enumerate(steps):
            self.progress(f"building {step.name}", number, len(steps))
            is_winner = step.name == top
            is_due = is_winner or not self.time_limit.is_over
            outcome = self.evaluator.build_candidate(step.candidate) if is_due else None
            if is_winner and isinstance(outcome, Failure):
                detail = f"{outcome.kind} in {outcome.stage}: {outcome.reason}"
                raise outcome.as_error(f"The winner fails, {detail}. See: passsearch audit RUN")
            built.append(replace(step, outcome=outcome))
        # Restored at the end: steps with one IR share a folder, and the gate deletes that of a step it refuses.
        return [replace(step, outcome=self._restored(step.outcome)) for step in built]

    def _restored(self, outcome: Built | Failure | None) -> Built | Failure | None:
        return self.evaluator.restore(outcome) if isinstance(outcome, Built) else outcome

    def _measure(self, steps: Sequence[Step], reference: Built) -> AblationRows:
        """Time every binary once in each process, and compile pipelines once in each round."""
        contenders, indices = self._contenders(built_steps(steps), reference)
        runs = not self.evaluator.session.cannot_run_reason
        plans = self.evaluator.plans
        most = plans.most_repetitions if self.objective.is_of_compiles else plans.compile_pairs
        pipelines = {compile_key(step.candidate): step.candidate for step in steps if step.name in indices}
        compiles = CompileRounds(self.evaluator, [self.baseline, *pipelines.values()], most, self.time_limit)

        def rows(samples: ComparisonSamples | None, *, is_complete: bool = False) -> AblationRows:
            readings = Readings(samples, indices, compiles, is_complete, len(self.looks))
            return AblationRows(steps, self.evaluator, readings, reference, self.baseline, self.objective)

        def is_decided(samples: ComparisonSamples) -> bool:
            return UNDECIDED not in rows(samples).speed_worths().values()

        # Side by side, so that a time limit leaves some of both; or one after the other, as speed decides what else.
        beside = CompileRounds(self.evaluator, [], 0, self.time_limit) if self.until_decided else compiles
        samples = self._time(contenders, reference, beside, is_enough=is_decided, total=len(steps)) if runs else None
        if self.until_decided:
            deciding = self._deciding(steps, rows(samples).speed_worths())
            compiles = replace(compiles, candidates=deciding, most=most if deciding else 0)
        if not runs or self.until_decided:
            self._compile(compiles, total=len(steps))
        # The next start tries accidents again.
        is_built = all(
            isinstance(step.outcome, Built) or (step.outcome is not None and step.outcome.kind not in ACCIDENTS)
            for step in steps
        )
        is_timed = not runs or (samples is not None and self._is_last(samples, is_decided))
        is_compiled = len(compiles.seconds) == compiles.most or (runs and not self.until_decided)
        return rows(samples, is_complete=is_built and is_timed and is_compiled)

    def _deciding(self, steps: Sequence[Step], speeds: Mapping[str, str]) -> list[Candidate]:
        """Return the winner and the pipelines whose compile time says what the pass that they lack is worth.

        This follows from throughput and never from compile times, so it is no bias in these.
        """
        matters = [step for step in steps if self.objective.is_of_compiles or speeds.get(step.name) == NOTHING]
        without = [step for step in matters if step.name in speeds]
        top = [step for step in steps if step.kind == LADDER][-1]
        different = {compile_key(step.candidate): step.candidate for step in [top, *without]}
        return list(different.values()) if without else []

    def _contenders(self, built: Mapping[str, Built], reference: Built) -> tuple[list[Contender], dict[str, int]]:
        """Return one contender for each binary, and the index of each step."""
        places, contenders = {reference.digest: BASELINE}, []
        for artifact in built.values():
            if artifact.digest not in places:
                places[artifact.digest] = len(places)
                contenders.append(Contender(self.side, Candidate(), artifact, places[artifact.digest]))
        return contenders, {name: places[artifact.digest] for name, artifact in built.items()}

    def _time(
        self,
        contenders: Sequence[Contender],
        reference: Built,
        compiles: CompileRounds,
        *,
        is_enough: Callable[[ComparisonSamples], bool],
        total: int,
    ) -> ComparisonSamples | None:
        begin = time.monotonic()

        def go_on(samples: ComparisonSamples) -> bool:
            nonlocal begin
            compiles.add()
            self.progress(f"measured in {len(samples.processes)} processes", total, total)
            elapsed, begin = time.monotonic() - begin, time.monotonic()
            # A turn of the same length must fit into the time that is left.
            return not self._is_last(samples, is_enough) and self.time_limit.left_s() > elapsed

        if self.time_limit.is_over:
            return None
        self.progress("measuring", total, total)
        options = ComparisonOptions(reads_consumption=False)
        return time_contenders([self.side], contenders, reference=reference, options=options, go_on=go_on)

    def _is_last(self, samples: ComparisonSamples, is_enough: Callable[[ComparisonSamples], bool]) -> bool:
        """Return whether no further process is needed: after the last look, or at a look that sees enough."""
        number = len(samples.processes)
        return number >= self.looks[-1] or (number in self.looks and is_enough(samples))

    def _compile(self, compiles: CompileRounds, *, total: int) -> None:
        """Compile in rounds as long as a round of the same length fits into the time that is left."""
        elapsed = 0.0
        while len(compiles.seconds) < compiles.most and self.time_limit.left_s() > elapsed:
            begin = time.monotonic()
            self.progress(f"compiling afresh, {len(compiles.seconds) + 1} of {compiles.most}", total, total)
            compiles.add()
            elapsed = time.monotonic() - begin

    def _minimal(self, winner: Candidate, reference: Built, *, worthless: frozenset[str]) -> MinimalForm | None:
        """Return the shortest form that is the same binary or certainly as fast, for an export."""
        same, _ = shortest_form(winner.pipeline, lambda pipeline: self._binary(winner, pipeline, worthless=worthless))
        fast = Pipeline(tuple(step for step in winner.pipeline.passes if str(step) not in worthless))
        if len(fast) < len(same) and (form := self._form_if_as_fast(winner, replace(winner, pipeline=fast), reference)):
            return form
        return self._minimal_form(replace(winner, pipeline=same), same_binary=True, ratio=None)

    def _binary(self, winner: Candidate, pipeline: Pipeline, *, worthless: frozenset[str]) -> str | Failure:
        """Return the digest of a pipeline's binary; it is built only if it lacks nothing but passes worth nothing."""
        if any(str(step) not in worthless and step not in pipeline.passes for step in winner.pipeline.passes):
            return ""
        outcome = self.evaluator.build_candidate(replace(winner, pipeline=pipeline))
        return outcome if isinstance(outcome, Failure) else outcome.digest

    def _form_if_as_fast(self, winner: Candidate, shorter: Candidate, reference: Built) -> MinimalForm | None:
        """Return a shorter form if it passes the gate and is certainly as fast as the winner."""
        first, second = (self._restored(self.evaluator.build_candidate(candidate)) for candidate in (winner, shorter))
        if not isinstance(first, Built) or not isinstance(second, Built):
            return None
        if first.digest == second.digest:
            return self._minimal_form(shorter, same_binary=True, ratio=None)
        if not self.objective.is_speed:
            return None  # only throughput is measured here
        contenders, indices = self._contenders({"winner": first, "shorter": second}, reference)
        compiles = CompileRounds(self.evaluator, [winner, shorter], 0, self.time_limit)
        level = level_of_looks(len(self.looks))

        def is_as_fast(samples: ComparisonSamples) -> bool:
            ratio = samples.ratio(indices["shorter"], reference=indices["winner"], level=level)
            return ratio.interval.low >= LEAST_SHARE and samples.floor <= 1 - LEAST_SHARE

        samples = self._time(contenders, reference, compiles, is_enough=is_as_fast, total=2)
        if samples is None:
            return None
        ratio = samples.ratio(indices["shorter"], reference=indices["winner"], level=level)
        if not is_as_fast(samples):
            _log.info("without the passes worth nothing the winner reads %s, so they stay", ratio)
            return None
        return self._minimal_form(shorter, same_binary=False, ratio=ratio)

    def _minimal_form(self, candidate: Candidate, *, same_binary: bool, ratio: Ratio | None) -> MinimalForm | None:
        deployment = self.evaluator.deployment(candidate, self.evaluator.folder)
        if isinstance(deployment, Failure):
            _log.warning("the shorter winner cannot be exported: %s: %s", deployment.kind, deployment.reason)
            return None
        return MinimalForm(
            pipeline=str(candidate.pipeline),
            passes=tuple(str(step) for step in candidate.pipeline.passes),
            same_binary=same_binary,
            throughput=timed(ratio),
            deployment=DeploymentRecord.from_json(deployment),
        )

    def _kernel_times(self, winner: Candidate) -> KernelTimes | None:
        """Return the seconds of each kernel of baseline and winner, where the runtime tells them apart."""
        if self.time_limit.is_over:
            return None
        self.progress("timing kernels", 0, 0)
        times = self.evaluator.in_places([self.baseline, winner])
        return KernelTimes(*(dict(each.kernels) for each in times)) if times else None


def ablate_run(
    document: Mapping[str, Any],
    evaluator: WorkerEvaluator,
    *,
    progress: Callable[[str, int, int], None],
    time_limit: TimeLimit,
    until_decided: bool = False,
) -> results.Ablation:
    """Measure what each pass of a run's winner is worth.

    Args:
        document: The run's result.
        evaluator: An evaluator of the network that the run saved.
        progress: Callback; gets the current step in words, the number of finished pipelines and that of all.
        time_limit: The time limit; no measurement begins after it.
        until_decided: True to end as soon as it is decided what every pass is worth.

    Raises:
        UserError: Baseline or winner cannot be built any more.
        EnvironmentFault: The machine fails.
    """
    result = RunResult.from_json(document)
    winner, baseline = Candidate.from_json(document["best"]), evaluator.session.dialect.baseline
    objective = recorded_objective(result.verdict)
    side = Side(evaluator, ())
    study = Ablation(side, baseline, winner, objective, progress, time_limit, until_decided, result.precision)
    ablation = study.execute()
    # As the run wrote it, by which a reader knows whether it is still the winner.
    return replace(ablation, winner=AppliedPipeline(pipeline=result.best.pipeline, build=result.best.build))
