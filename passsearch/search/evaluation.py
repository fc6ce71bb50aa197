"""The evaluated candidates of a search: every IR and build once, each timed beside the reference, the best first."""

import logging
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.errors import EnvironmentFault, PassSearchError, TimeTooShort, UserError
from passsearch.evaluate import EdgeKey, Evaluator
from passsearch.search.candidate_measurement import FAR_SLOWER, LEAST_LONG_S, measure_candidate
from passsearch.search.confirm import MORE_TIME
from passsearch.search.options import RunOptions
from passsearch.search.records import Counts, Reference, Scored
from passsearch.search.scoring import FAR_FASTER, Scoring
from passsearch.search.shortlist import SHORTLIST

# More than the shortlist has, because several artifacts may be one binary. Few, because one artifact can be as large as
# the network's parameters.
KEPT_ARTIFACTS = 8
"""Number of artifacts that stay on disk for the shortlist."""

_log = logging.getLogger(__name__)


class Evaluation:
    """Evaluates the candidates of one search, and keeps what it found.

    Attributes:
        counts: Counts.
        scored: Evaluated candidates and baselines by key of the build.
        scoring: Gains over the baseline; ``None`` until the baseline is measured.
        reference: The artifact beside which candidates are timed; ``None`` until the baseline is built.
        fastest: The candidate of that artifact, once the baseline is measured.
    """

    def __init__(
        self, evaluator: Evaluator, options: RunOptions, *, progress: Callable[[Counts, Scored | None], None]
    ) -> None:
        """Prepare an evaluation.

        Args:
            evaluator: Evaluates the candidates.
            options: The options of the run.
            progress: Callback; gets the counts and the newest candidate, ``None`` where it failed.
        """
        self._evaluator, self._options = evaluator, options
        self._progress = progress
        self.counts = Counts()
        self.scored: dict[str, Scored] = {}
        self.scoring: Scoring | None = None
        self.reference: Reference | None = None
        self._outcomes: dict[str, Scored | Failure] = {}  # by state and build
        self._counted_edges: set[EdgeKey] = set()  # failed edges that some candidate ran into
        self._explored_edges: set[EdgeKey] = set()  # failed edges that exploration found: they cost no trial
        self._listed_failures: set[tuple[str, str]] = set()  # pass and kind

    def measure_baseline(self, candidate: Candidate) -> Scored:
        """Build and time the baseline to beat, which is the first reference.

        Raises:
            BaselineFailed: It does not build, run or agree with the reference outputs.
        """
        built = self._evaluator.build(self._evaluator.graph.root, candidate)
        if isinstance(built, Failure):
            raise BaselineFailed(built)
        self._baseline, self.reference = built, Reference(built)
        outcome = self.evaluate(candidate, is_baseline=True)
        if isinstance(outcome, Failure):
            raise BaselineFailed(outcome)
        return outcome

    def ranked(self) -> list[Scored]:
        """Return the admissible candidates whose pipelines still lead to a state, the best first."""
        # A pass may be found nondeterministic after candidates with it were evaluated.
        assert self.scoring is not None
        return self.scoring.rank(scored for scored in self.scored.values() if self.is_deterministic(scored))

    @property
    def leader(self) -> Scored:
        """The candidate that would be confirmed now: the best besides the baseline, or the baseline alone."""
        assert self.scoring is not None
        baseline = self.scoring.baseline
        return next((each for each in self.ranked() if each.built.key != baseline.built.key), baseline)

    def evaluate(self, candidate: Candidate, *, is_baseline: bool = False) -> Scored | Failure:
        """Return a measured candidate; one whose IR and build are known is not measured again."""
        self.counts.proposed += not is_baseline
        state = self._evaluator.reach(candidate.pipeline)
        if isinstance(state, Failure):
            self.counts.invalid += 1
            return self._failed_to_apply(candidate, state, is_baseline=is_baseline)
        key = _key(state, candidate.build)
        if key in self._outcomes:
            self.counts.duplicates += 1
            _log.debug("%s leads to a known IR", candidate)
            return self._outcomes[key]
        # The outputs of the cheapest pipeline are judged, as it would be deployed: a pass that may change numerics but
        # changed nothing here excuses no deviation.
        candidate = replace(candidate, pipeline=self._evaluator.graph.cheapest(state)[0])
        assert self.reference is not None
        self._make_room()
        outcome = self._outcomes[key] = measure_candidate(
            self._evaluator,
            candidate,
            state=state,
            baseline=self._baseline,
            reference=self.reference,
            objectives=self._options.objectives,
            longest_s=self._longest_s,
        )
        if isinstance(outcome, Failure):
            self._count_failure(candidate, outcome, is_baseline=is_baseline)
            return outcome
        self._count(outcome, is_baseline=is_baseline)
        return outcome

    def is_measured(self, state: str, builds: Sequence[BuildOptions]) -> bool:
        """Return whether a state was evaluated with every one of these builds."""
        return all(_key(state, build) in self._outcomes for build in builds)

    def list_failures(self, steps: Collection[PassSpec]) -> None:
        """List passes that failed while the space was explored, once for each kind of failure; they cost no trial."""
        # Once for each pass and kind of failure: AlterOpLayout failed on 169 of 885 states of an SSD for one reason.
        graph = self._evaluator.graph
        for failed in graph.failures(steps):
            self._explored_edges.add(failed.key)
            kind = (failed.failure.step, failed.failure.kind)
            if failed.key not in self._counted_edges and kind not in self._listed_failures:
                pipeline = Pipeline((*graph.cheapest(failed.state)[0].passes, failed.step))
                self._counted_edges.add(failed.key)
                self.counts.failures.append((Candidate(pipeline), failed.failure))
            self._listed_failures.add(kind)

    def _count(self, scored: Scored, *, is_baseline: bool) -> None:
        if self.scoring is None:  # the baseline is evaluated first
            self.scoring = Scoring(self._options, scored)
            self._use_reference(scored)
        _log.info("%s: %s", scored.candidate.name or scored.candidate, _summary(scored))
        self.counts.evaluated += not is_baseline
        self.scored[scored.built.key] = scored
        # Only a far faster one: the error of the reference's own ratio goes into every later ratio, and facts that runs
        # share are of pairs.
        assert self.reference is not None
        if scored.ratio is not None and scored.ratio.value > FAR_FASTER * self.reference.gain:
            self._use_reference(scored)
        self._discard_losers()
        self._progress(self.counts, scored)

    def _use_reference(self, scored: Scored) -> None:
        """Time all later candidates beside this one."""
        assert self.scoring is not None
        gain = scored.ratio.value if scored.ratio else 1.0
        self.reference = Reference(scored.built, gain, min(scored.latency_s, default=None))
        self.fastest = scored
        _log.info("candidates are timed beside %s from now on", scored.candidate.name or scored.candidate)

    @property
    def _longest_s(self) -> float:
        """Longest inference that a candidate may take to be of interest, in seconds."""
        options, scoring, reference = self._options, self.scoring, self.reference
        if scoring is None or reference is None or reference.latency_s is None:
            return math.inf
        # A candidate that only has to keep the baseline's throughput may be slower than the fastest one.
        if scoring.is_constrained:
            return max(FAR_SLOWER * reference.gain * reference.latency_s, LEAST_LONG_S)
        for_speed = len(options.objectives) == 1 and options.objectives[0].is_speed
        return max(FAR_SLOWER * reference.latency_s, LEAST_LONG_S) if for_speed else math.inf

    def _make_room(self) -> None:
        """Where the disk is short, keep the files of the candidates that the shortlist measures, as of now."""
        assert self.reference is not None
        best = [scored.built for scored in self.ranked()[:SHORTLIST]] if self.scoring else []
        self._evaluator.make_room([self._baseline, self.reference.built, *best])

    def _discard_losers(self) -> None:
        """Delete the files of candidates that will not make the shortlist."""
        assert self.reference is not None
        if len(self.scored) <= KEPT_ARTIFACTS:
            return
        best = [scored.built.key for scored in self.ranked()[:KEPT_ARTIFACTS]]
        kept = {self._baseline.key, self.reference.built.key, *best}
        # Also those that are not ranked, because they are too slow to be timed or too slow to be admitted.
        for scored in self.scored.values():
            if scored.built.key not in kept:
                self._evaluator.discard(scored.built)

    def _failed_to_apply(self, candidate: Candidate, failure: Failure, *, is_baseline: bool) -> Failure:
        """Count a failed edge once, however many sequences run into it."""
        _log.debug("%s fails: %s", candidate, failure.reason)
        edge = self._evaluator.graph.failed_edge(candidate.pipeline)
        if edge not in self._explored_edges and edge not in self._counted_edges:
            self._counted_edges.add(edge)
            self._count_failure(candidate, failure, is_baseline=is_baseline)
        return failure

    def _count_failure(self, candidate: Candidate, failure: Failure, *, is_baseline: bool) -> None:
        """Count a failure as an evaluation, because it took time as well; a baseline costs no trial."""
        _log.info("%s fails: %s in %s, %s", candidate, failure.kind, failure.stage, failure.reason)
        self.counts.failures.append((candidate, failure))
        self.counts.evaluated += not is_baseline
        self._progress(self.counts, None)

    def is_deterministic(self, scored: Scored) -> bool:
        """Return whether no pass of a pipeline was found nondeterministic after it was evaluated."""
        if not self._evaluator.graph.has_forbidden:
            return True
        return isinstance(self._evaluator.reach(scored.candidate.pipeline), str)


def _summary(scored: Scored) -> str:
    ratio = f"{scored.ratio.value:.3f} of the baseline's throughput, " if scored.ratio else ""
    return f"{ratio}compiles in {scored.compile_s:.2f} s"


def _key(state: str, build: BuildOptions) -> str:
    return f"{state}|{build}"


class BaselineFailed(Exception):
    """The baseline itself does not build, run or agree with the reference: there is nothing to compare with."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure

    def for_user(self, time_limit: TimeLimit, *, log: Path) -> PassSearchError:
        """Return the error that says what to do about it.

        Args:
            time_limit: The run's time limit.
            log: File with the compiler's output.
        """
        failure = self.failure
        detail, is_timeout = f"{failure.kind} in {failure.stage}: {failure.reason}", failure.kind == "timeout"
        if failure.is_of_machine:
            return EnvironmentFault(
                f"The machine kept the baseline from being measured, {detail}. Once that is mended, the same command "
                "continues. See: passsearch doctor"
            )
        if is_timeout and time_limit.is_over:
            limit = f"time limit of {time_limit.limit_s:g} s"
            return TimeTooShort(f"The {limit} ended before the baseline was measured; {MORE_TIME}.")
        more = " A longer --deadline gives it more time." if is_timeout else ""
        return UserError(
            f"The baseline fails on this network, {detail}.{more} It was tried anew, not remembered; the compiler's "
            f"output is in `{log}`."
        )
