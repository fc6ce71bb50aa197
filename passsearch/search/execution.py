"""One start of a run: search, shortlist, confirm, write the result."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from passsearch.core import USUAL_REPETITIONS, Candidate, Failure, Json, Step, TimeLimit
from passsearch.errors import UserError
from passsearch.evaluate import OVERTIME, WorkerEvaluator
from passsearch.results import Reference, RunLimits
from passsearch.search.best_sequence import BestSequence, best_sequence
from passsearch.search.bisection import is_deviation, write_reproducers
from passsearch.search.confirm import LEAST_REPETITIONS, MORE_TIME, confirm, slow_baseline_processes
from passsearch.search.confirmation import Confirmation
from passsearch.search.document import Document, run_result
from passsearch.search.evaluation import BaselineFailed
from passsearch.search.needless_search import needless_search
from passsearch.search.options import RunOptions
from passsearch.search.pass_selection import NetworkAnalysis, analyze_network, baselines, first_trials
from passsearch.search.precision_request import precision_request
from passsearch.search.recommendation import Recommendation, recommend
from passsearch.search.recommended_sequence import recommended_sequences
from passsearch.search.records import TIME_LIMIT, Counts, Scored
from passsearch.search.repetition import Pairing
from passsearch.search.rivals import UNFINISHED, Beside, compare_winner, with_rivals
from passsearch.search.same_bits import BitsKeeper, reference_candidate
from passsearch.search.scoring import Scoring
from passsearch.search.shortlist import shortlist
from passsearch.search.study import Search
from passsearch.search.time_plan import FRESH_PROCESS_S, LONGEST_START_S, TO_THE_END, TimePlan, duration
from passsearch.store import RunFolder, read_result

Progress: TypeAlias = Callable[[str, int, int], None]
"""Callback; gets the current step in words, the number of evaluated candidates and the number of trials.

In a search the step is a ``passsearch.core.Step``, which is a text with the time limit and the best candidate so far.
"""

_log = logging.getLogger(__name__)


class Execution:
    """One start of a run."""

    def __init__(
        self,
        options: RunOptions,
        folder: RunFolder,
        evaluator: WorkerEvaluator,
        progress: Progress,
        *,
        limits: Mapping[str, Json],
        beside: Beside | None,
        spent_s: float,
    ) -> None:
        """Prepare a start; see ``Run`` for the arguments.

        Args:
            options: The options of the run.
            folder: The run folder.
            evaluator: Evaluates the candidates.
            progress: Callback; see ``Progress``.
            limits: The settings that may change when a run is continued.
            beside: Other engines that the winner is measured beside.
            spent_s: Seconds that the session took to open.
        """
        session = evaluator.session
        self._session, self._options, self._limits, self._folder = session, options, limits, folder
        self._evaluator, self._progress, self._beside = evaluator, progress, beside
        self._plan = ""
        self._planned_for: Scored | None = None
        self._finalists: Sequence[Scored] = ()
        # A busy machine starts processes slowly. The network was imported by the first one.
        source_s = evaluator.builder.source.seconds  # before the clock is read
        start_s = min(max(folder.log.clock_s - source_s - spent_s, FRESH_PROCESS_S), LONGEST_START_S)
        # Not wall time: a resumed run, which reads its log, stops at the same trial for the same time limit.
        self._time_limit = TimeLimit(session.limits.timeout_s, lambda: folder.log.clock_s)
        has_meter, log = session.sensors.meter is not None, folder.log
        self._time_plan = TimePlan(
            *(session.plans, options, self._time_limit, has_meter, start_s),
            *(log.earlier_s, folder.earlier_limit_s, beside),
        )
        requested = options.requested_passes
        self._analysis = analyze_network(session, evaluator.network.summary, requested_passes=requested)
        kept = reference_candidate(session, self._analysis)
        self._bits = None if kept is None else BitsKeeper(evaluator, kept)
        self._search = self._make_search(self._analysis)
        self._evaluation = self._search.evaluation

    def execute(self) -> Document:
        """Search, confirm, and write the result; an interruption ends the start early with what is known."""
        recommendation, interrupted = self._find_best()
        if recommendation is not None and self._bits is not None:
            recommendation = self._bits.kept(recommendation, self._evaluation.scored)
        if recommendation is None or self._evaluation.scoring is None:
            # The command line reports an interruption; a result without a baseline would compare with nothing.
            raise KeyboardInterrupt
        best = recommendation.best
        document = self._document(self._evaluation.scoring, recommendation, interrupted=interrupted)
        if interrupted:
            # A finished result of an earlier start is worth more than an interrupted one.
            if not self._has_finished():
                self._folder.write_result(document)
            return document
        # The outputs of a slow default take three inferences, and nobody deploys it by an export.
        thrice_s = 3 * min(best.latency_s, default=0.0)
        is_slow = best is self._evaluation.scoring.baseline and self._time_limit.left_s() < thrice_s
        deployment = None if is_slow else self._evaluator.deployment(best.candidate, self._folder.path)
        if isinstance(deployment, Failure):
            _log.warning("the winner cannot be exported: %s: %s", deployment.kind, deployment.reason)
        elif deployment is not None:
            document["deployment"] = {**deployment, "paths": list(self._session.paths)}
        # Written now and again with what follows, which may take long or be interrupted.
        document |= {} if self._beside is None else {"rivals": UNFINISHED.to_json()}
        self._folder.write_result(document)
        if self._beside is not None:
            document |= self._compare(self._beside, best, document["seconds"])
            self._folder.write_result(document)
        if any(is_deviation(failure) for _, failure in self._evaluation.counts.failures):
            self._report("looking for the passes that made outputs wrong", self._options.trials)
        kept = [self._evaluation.scoring.baseline.built, best.built]
        document["reproducers"] = write_reproducers(
            self._evaluator,
            self._evaluation.counts.failures,
            folder=self._folder.path,
            kept=kept,
            time_limit=self._time_limit,
            context={key: document[key] for key in ("toolchain", "target", "model")},
        )
        self._folder.write_result(document)
        # A continued run makes the others again where it needs them.
        self._evaluator.keep_only(kept)
        return document

    def _compare(self, beside: Beside, best: Scored, seconds: Mapping[str, float]) -> Document:
        """Return what the result says about the winner beside other engines, and its seconds with theirs."""
        if beside.names:
            self._report("measuring beside other engines", self._options.trials)
        log = self._folder.log
        compared = compare_winner(beside, self._evaluator, best, log=log, time_limit=self._time_limit)
        return {"rivals": compared.to_json(), "seconds": with_rivals(seconds, compared, total_s=log.seconds)}

    def _has_finished(self) -> bool:
        """Return whether an earlier start finished and wrote its result."""
        try:
            return not read_result(self._folder.path).get("interrupted")
        except UserError:  # there is none, or it is damaged
            return False

    def _document(self, scoring: Scoring, recommendation: Recommendation, *, interrupted: bool) -> Document:
        source, total = self._evaluator.builder.source, self._folder.log.seconds
        stages = {**self._evaluator.seconds, "source": source.seconds}
        outcome = self._search.outcome
        result = run_result(
            outcome if self._bits is None else self._bits.offered(outcome),
            scoring,
            self._session,
            network=self._evaluator.network,
            analysis=self._analysis,
            recommendation=recommendation,
            sequence=self._best_sequence(scoring),
            seconds={**stages, "search": total - sum(stages.values()), "total": total},
            interrupted=interrupted,
            measured_at=self._folder.measured_at,
            recalled_times=self._evaluator.recalled_times,
            reference=Reference.from_json(source.to_json()),
            limits=RunLimits.from_json(self._limits),
        )
        kept = None if self._bits is None else self._bits.stated(recommendation.best)
        return replace(result, same_bits=kept).to_json()

    def _make_search(self, analysis: NetworkAnalysis) -> Search:
        session, options, plans = self._session, self._options, self._session.plans
        only = None if options.passes is None else options.requested_passes
        space, for_speed = analysis.space(session.catalog, only), options.objectives[0].is_speed
        usual = first_trials(session, analysis, only=only, for_speed=for_speed)
        order, recommended = self._evaluator.gains.order, recommended_sequences(session, analysis)
        first = order(usual, recommended, allowed=space.names) if for_speed else usual
        if self._bits is not None and (kept := self._bits.candidate) != session.dialect.baseline:
            first = (kept, *(each for each in first if each.pipeline != kept.pipeline))
        if needless := needless_search(session, options, analysis, first=first):
            self._note(needless)
        # A time limit is meant for trials, so exploring may take a small part of it only.
        return Search(
            self._evaluator,
            space,
            options=options,
            baselines=baselines(session, analysis),
            default_baseline=session.dialect.default_baseline,
            first=first,
            time_limit=self._time_limit,
            progress=self._note_candidate,
            explorer=self._evaluator.applier,
            profiler=self._evaluator,
            precision=precision_request(self._session, self._evaluator),
            needless=needless,
            end_s=self._plan_search,
            explore_s=min(plans.explore_s, plans.explore_share * self._time_limit.limit_s),
            compilers=session.explorers,
        )

    def _plan_search(self, baseline: Scored, fastest: Scored, leader: Scored) -> float:
        """Return the time at which the search has to end, so that the winner can be confirmed; tell the user."""
        if math.isinf(self._time_limit.limit_s):
            if not self._plan:
                self._plan = self._time_plan.estimate(baseline)
                self._note(self._plan)
            return math.inf
        end_s, text = self._time_plan.search_end(baseline, fastest, leader)
        if not self._plan and (note := self._time_plan.earlier_text):
            self._note(note)
        # Another leader often moves the plan by a second, which is no news.
        is_news = fastest is not self._planned_for or (text == TO_THE_END) != (self._plan == TO_THE_END)
        if is_news and text != self._plan:
            self._note(text)
            self._plan, self._planned_for = text, fastest
        return end_s

    def _note_candidate(self, counts: Counts, scored: Scored | None) -> None:
        """Tell the user how far the search is, and leave the gain of a candidate to later runs."""
        if scored is not None and scored.ratio is not None:
            self._evaluator.gains.record(scored.built, scored.candidate, scored.ratio.value, scored.conditions)
        self._report(self._search.phase, counts.evaluated)

    def _note(self, text: str) -> None:
        """Tell the user something that stays on the screen: a total of 0 marks it."""
        self._progress(text, 0, 0)

    def _report(self, text: str, evaluated: int) -> None:
        trials = self._options.trials
        seconds, limit_s = self._folder.log.seconds, self._time_limit.limit_s
        step = Step(text, detail=self._detail(), elapsed_s=seconds, limit_s=limit_s)
        self._progress(step, min(evaluated, trials), trials)

    def _detail(self) -> str:
        """Return the best candidate so far, the number of IRs, and the failures by kind."""
        states = self._evaluator.graph.states
        parts = [f"{states} IRs"] if states > 1 else []
        best = next(iter(self._evaluation.ranked()), None) if self._evaluation.scoring else None
        if best is not None and self._evaluation.scoring is not None:
            objective = self._evaluation.scoring.objective
            gain = self._evaluation.scoring.gain(objective, best)
            parts.insert(0, f"best {objective.title} {gain:.2f} times the baseline's, not confirmed")
        kinds = Counter(failure.kind for _, failure in self._evaluation.counts.failures)
        parts += ["failed: " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())] if kinds else []
        return "; ".join(parts)

    def _find_best(self) -> tuple[Recommendation | None, bool]:
        """Search and confirm; return what is recommended, and whether the user interrupted the search."""
        search = self._search
        try:
            if 0 < self._options.repetitions < USUAL_REPETITIONS:
                few, usual = self._options.repetitions, USUAL_REPETITIONS
                self._note(f"warning: {few} fresh compiles leave intervals wide; {usual} are usual (--confirm {usual})")
            self._report("measuring the baselines", 0)
            if self._bits is not None:
                self._bits.require()
            search.run()
            assert self._evaluation.scoring is not None and self._evaluation.reference is not None
            self._report("measuring the shortlist side by side", self._evaluation.counts.evaluated)
            scoring, ranked = self._evaluation.scoring, self._evaluation.ranked()
            finalists = shortlist(
                self._evaluator,
                scoring,
                ranked,
                reference=self._evaluation.reference,
                processes=self._time_plan.shortlist_processes(scoring.baseline, ranked[:1]),
                is_recorded=self._is_timed,
            )
            if not finalists:
                return Recommendation(scoring.baseline, self._failure_if_nothing_measured()), False
            self._finalists = finalists
            sequence = self._best_sequence(scoring)
            recommendation = recommend(
                finalists[0],
                self._confirm(finalists[0], scoring, sequence),
                scoring=scoring,
                sequence=sequence,
                confirm_again=lambda rival: self._confirm(rival, scoring, sequence),
            )
            return recommendation, False
        except BaselineFailed as error:
            raise error.for_user(self._time_limit, log=self._folder.artifacts / "workers.log") from error
        except KeyboardInterrupt:
            if self._evaluation.scoring is None:
                return None, True
            # The finalist that was being confirmed comes first, if there is one.
            ranked = [*self._finalists, *self._evaluation.ranked(), self._evaluation.scoring.baseline]
            return Recommendation(ranked[0], None), True

    def _best_sequence(self, scoring: Scoring) -> BestSequence | None:
        levels = [candidate.name for candidate in self._session.dialect.baselines]
        return best_sequence([*self._evaluation.ranked(), *self._finalists], scoring, levels=levels)

    def _failure_if_nothing_measured(self) -> Failure | None:
        """Return that the time limit left no time to measure a candidate; ``None`` if there was time."""
        levels = {candidate.name for candidate in self._session.dialect.baselines}
        is_measured = any(scored.candidate.name not in levels for scored in self._evaluation.scored.values())
        kinds = {failure.kind for _, failure in self._evaluation.counts.failures}
        if is_measured or kinds - {"timeout"} or self._search.outcome.coverage.ended != TIME_LIMIT:
            return None
        reason = f"the time limit ended before a candidate was measured; {MORE_TIME}"
        return Failure("timeout", "measure", "", reason)

    def _confirm(self, best: Scored, scoring: Scoring, sequence: BestSequence | None) -> Confirmation | Failure | None:
        if self._options.repetitions < 1:
            return None
        pairing = self._pairing(best, scoring, sequence)
        two_s = self._time_plan.least_confirm_s(scoring.baseline, best)
        # What an earlier start has confirmed takes no time, however long the search took since.
        pairings = pairing, replace(pairing, sequence=None)
        has_begun = any(self._is_timed(each.timing_key(LEAST_REPETITIONS - 1)) for each in pairings)
        if two_s > self._time_limit.left_s(overtime=OVERTIME) and not has_begun:
            reason = f"the time limit leaves no {duration(two_s)} to confirm; {MORE_TIME}"
            return Failure("timeout", "measure", "", reason)
        return confirm(
            self._evaluator,
            pairing,
            repetitions=self._options.repetitions,
            progress=lambda text: self._report(text, self._evaluation.counts.evaluated),
            keep_throughput=self._options.least_throughput,
            time_limit=self._time_limit,
            kept_s=self._time_plan.rivals_s(best),
            is_recorded=self._is_timed,
        )

    def _is_timed(self, key: str) -> bool:
        return self._folder.log.has_result("timed", key)

    def _pairing(self, best: Scored, scoring: Scoring, sequence: BestSequence | None) -> Pairing:
        """Return what is compared with the winner; the files of all others make room."""
        baseline, objective = scoring.baseline, scoring.objective
        throughput = best.ratio.value if best.ratio else None
        latency_s = min(baseline.latency_s, default=0.0)
        plans = self._evaluator.plans
        slow = slow_baseline_processes(objective, throughput, latency_s=latency_s, plans=plans)
        beside = None if sequence is None or sequence.is_same_binary_as(best) else sequence.scored.built
        self._evaluator.make_room([baseline.built, best.built, *([beside] if beside else [])])
        candidate, twin = Candidate(best.candidate.pipeline, best.candidate.build), best if slow else baseline
        return Pairing(baseline.candidate, candidate, twin.built, objective, slow, beside)
