"""The search: Optuna proposes sequences, equal IR is evaluated once, every outcome is reported back."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import optuna

from passsearch.catalog import CatalogEntry
from passsearch.core import OTHER_BITS, UNLIMITED, Candidate, Failure, TimeLimit
from passsearch.evaluate import Evaluator, Exploration, ExplorationLimits, Explorer, KernelProfiler, RoundedWeights
from passsearch.results import PrecisionDecision
from passsearch.search.composition import COMPOSED, Composer, has_kernel_schedules
from passsearch.search.composition_records import Composition
from passsearch.search.evaluation import Evaluation
from passsearch.search.graph_space import GraphSpace
from passsearch.search.next_states import NextStates
from passsearch.search.options import RunOptions
from passsearch.search.precision import Gain, PrecisionChooser
from passsearch.search.precision_request import PrecisionRequest
from passsearch.search.records import TIME_LIMIT, Counts, ProposalSource, Scored, SearchOutcome, SpaceCoverage
from passsearch.search.samplers import Strategy, make_strategy
from passsearch.search.space import Space

# Large, because a sequence that leads to nothing new costs no measurement, and most do: of 114 random sequences on
# ResNet-18, 53 were duplicates and 16 failed.
PATIENCE = 150
"""Number of sequences in a row that lead to nothing new before a search ends."""

FIRST_S = 3.0
"""Seconds to apply passes, to compare outputs and to time a fast candidate, roughly."""

_log = logging.getLogger(__name__)


class Search:
    """One search over one evaluator. ``run`` may be interrupted; ``outcome`` then holds everything evaluated so far.

    Attributes:
        evaluation: The candidates that were evaluated.
        composition: The pipeline composed of decisions on regions and kernels; see ``SearchOutcome``.
        precision: The precisions of weights; see ``SearchOutcome``.
        phase: What the search does now, in words.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        space: Space,
        *,
        options: RunOptions,
        baselines: Sequence[Candidate],
        default_baseline: str,
        first: Sequence[Candidate],
        time_limit: TimeLimit = UNLIMITED,
        progress: Callable[[Counts, Scored | None], None],
        explorer: Explorer | None = None,
        profiler: KernelProfiler | None = None,
        precision: tuple[PrecisionRequest, RoundedWeights] | None = None,
        needless: str = "",
        end_s: Callable[[Scored, Scored, Scored], float] = lambda *_: math.inf,
        explore_s: float = 0.0,
        compilers: int = 1,
    ) -> None:
        """Prepare a search.

        Args:
            evaluator: Evaluates the candidates.
            space: The sequences to search.
            options: The options of the run.
            baselines: Named candidates that are measured like any other.
            default_baseline: Name of the baseline to beat.
            first: Candidates to evaluate before the sampler starts.
            time_limit: Time limit of the run, which goes on after the search.
            progress: Callback; gets the counts and the newest candidate, ``None`` where it failed.
            explorer: Grows the state graph; without one, no state is looked for beyond those that candidates reach.
            profiler: Times single kernels; without one, no candidate is composed of the kernels of others.
            precision: What the user asks of the precision of weights, and what compares outputs; ``None`` for float32.
            needless: Why the first candidate is enough unless it fails; empty for a search.
            end_s: Returns the time at which the search ends, on the clock of ``time_limit``, from the baseline, the
                candidate that the others are timed beside, and the best candidate; called before every candidate.
            explore_s: Longest time to close the space before the sampler starts.
            compilers: Number of processes that apply passes side by side.
        """
        self._evaluator, self._explorer, self._space, self._options = evaluator, explorer, space, options
        self._baselines, self._first = baselines, [*first]
        self._default = next(candidate for candidate in baselines if candidate.name == default_baseline)
        self._run_time_limit, self._progress = time_limit, progress
        self._end_s, self._explore_s, self._compilers = end_s, explore_s, compilers
        self._profiler, self._precision, self._needless = profiler, precision, needless
        self._time_limit = replace(time_limit, limit_s=math.inf)  # of the search, until there is a plan
        self.evaluation = Evaluation(evaluator, options, progress=progress)
        self._next_states = NextStates(
            evaluator, space, evaluation=self.evaluation, explorer=explorer, seed=options.seed, is_over=self._is_over
        )
        self.composition: Composition | Failure | None = None
        self.precision: PrecisionDecision | Failure | None = None
        self.phase = "searching"
        self._sampler, self._ended = options.sampler, "interrupted"
        self._source: ProposalSource = "sampler"

    def run(self) -> None:
        """Evaluate the baseline, then named sequences, then the sampler's proposals.

        Raises:
            BaselineFailed: There is nothing to compare with.
        """
        evaluated: list[tuple[Candidate, Scored | Failure]] = []
        evaluated.append((self._default, self.evaluation.measure_baseline(self._default)))
        evaluated += self._evaluate_sequences()
        evaluated += self._evaluate_composed()
        self._decide_precision()
        evaluated += self._evaluate_sequences()
        # The compiler's other levels rarely win, and cost less beside a fast reference.
        evaluated += self._other_baselines()
        self._explore()
        self._begin_phase("searching")
        # After the exploration, because a strategy over states numbers the states that there are.
        strategy = self._strategy()
        self._sampler, self._source = strategy.name, strategy.source
        # Optuna prints a line for each trial, and this package has its own log.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["maximize"] * len(self._options.objectives), sampler=strategy.sampler)
        for candidate, outcome in evaluated:
            self._add_trial(study, strategy, candidate=candidate, outcome=outcome)
        _log.info("sampling by %s, %d candidates evaluated so far", strategy.name, self.evaluation.counts.evaluated)
        self._optimise(study, strategy)
        _log.info("the search ends: %s; %d candidates evaluated", self._ended, self.evaluation.counts.evaluated)
        # Again, because the neighbours of the best states were explored meanwhile.
        self.evaluation.list_failures(self._space.steps)

    @property
    def outcome(self) -> SearchOutcome:
        """The result so far; the baseline must be measured."""
        evaluation = self.evaluation
        assert evaluation.scoring is not None
        graph, requested = self._evaluator.graph, self._options.requested_passes
        coverage = SpaceCoverage(
            states=graph.states,
            closed=self._closed,
            closed_without=self._closed_without,
            sampler=self._sampler,
            source=self._source,
            ended=self._ended,
            # Passes that the user asked for first: a user looks for those.
            idle=tuple(sorted(graph.idle_passes(), key=lambda name: name not in requested)),
            untried=tuple(name for name in requested if name not in graph.tried_passes()),
        )
        unoffered = frozenset(
            key for key, scored in evaluation.scored.items() if not evaluation.is_deterministic(scored)
        )
        return SearchOutcome(
            evaluation.scoring.baseline,
            evaluation.scored,
            evaluation.counts,
            coverage,
            self.composition,
            unoffered,
            self.precision,
        )

    def _strategy(self) -> Strategy:
        graph = GraphSpace(
            self._evaluator.graph,
            self._evaluator.reach,
            op_counts=self._evaluator.op_counts,
            steps=self._space.steps,
            builds=self._space.builds,
            find_states=self._next_states.find,
        )
        number, seed = len(self._options.objectives), self._options.seed
        return make_strategy(self._options.sampler, self._space, graph=graph, seed=seed, objectives=number)

    def _begin_phase(self, phase: str) -> None:
        """Tell the user what the search does from now on."""
        self.phase = phase
        self._progress(self.evaluation.counts, None)

    def _evaluate_sequences(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the named sequences until the search is over.

        Where kernels can be decided on, sequences wait for that when half of the search's time is over. Once those that
        schedule single kernels had their turn, and one is faster than the baseline, the others wait in any case.

        Until one is measured, they also have their turn where a slow baseline has used the search's share of a time
        limit: a confirmation without a candidate is worth nothing, and how long it takes is not known yet.
        """
        evaluated: list[tuple[Candidate, Scored | Failure]] = []
        begun_s = self._time_limit.clock_s()
        while self._first and not self._is_enough():
            if self._trials_are_done() or (self._time_is_over() and not self._has_time_for_the_first()):
                break
            # On BERT-base, sequences that differ by 1 % took all the time that kernels need. On a GPU, sequences
            # without a schedule for single kernels did.
            is_half_over = self._time_limit.clock_s() - begun_s > self._time_limit.left_s()
            best = self._best_with_kernels() if self.composition is None else None
            is_faster = best is not None and _is_faster(best)
            if best and (is_half_over or (is_faster and not self._has_sequence_with_kernels())):
                _log.info("further sequences wait, because time is kept for kernels")
                break
            candidate = self._first.pop(0)
            outcome = self.evaluation.evaluate(candidate)
            evaluated.append((candidate, outcome))
            if self._needless and not _is_faster(outcome):
                # What a search may add is known beyond that candidate only, where it is as fast as on other networks.
                _log.info("a search goes on, because `%s` is no faster than the baseline", candidate.name)
                self._needless = ""
        return evaluated

    def _has_time_for_the_first(self) -> bool:
        """Return whether no candidate is measured yet, and the time limit leaves some seconds.

        Its build ends with the limit, and may well be quicker than the baseline's.
        """
        is_first = self.evaluation.scoring is not None and len(self.evaluation.scored) == 1
        return is_first and self._run_time_limit.left_s() > FIRST_S

    def _has_sequence_with_kernels(self) -> bool:
        return any(has_kernel_schedules(candidate.pipeline, self._space.entries) for candidate in self._first)

    def _best_with_kernels(self) -> Scored | None:
        """Return the best candidate whose kernels can be decided on, where that serves an objective."""
        if self._profiler is None or not any(objective.is_speed for objective in self._options.objectives):
            return None
        # A sequence of other rules may be faster than the one whose kernels can be decided on.
        entries = self._space.entries
        return next(
            (scored for scored in self.evaluation.ranked() if has_kernel_schedules(scored.candidate.pipeline, entries)),
            None,
        )

    def _other_baselines(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the compiler's other levels while time is left; they cost no trial."""
        others = [candidate for candidate in self._baselines if candidate is not self._default]
        return [
            (candidate, self.evaluation.evaluate(candidate, is_baseline=True))
            for candidate in others
            if not self._time_is_over() and not self._is_enough()
        ]

    def _evaluate_composed(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the pipeline that is composed of the best decisions for each region and kernel."""
        best = self._best_with_kernels()
        if self._profiler is None or best is None or self._is_enough():
            return []
        self._begin_phase("timing kernels one by one")
        # What is composed is built and timed afterwards, and another process checks what the result is deployed by.
        limit_s = min(self._time_limit.limit_s, self._run_time_limit.limit_s - 2 * (best.compile_s + FIRST_S))
        if self._precision:  # which takes the other half
            limit_s = min(limit_s, self._time_limit.clock_s() + self._time_limit.left_s() / 2)
        time_limit, entries = replace(self._time_limit, limit_s=limit_s), self._space.entries
        evaluated = self._compose(self._profiler, best, entries, time_limit)
        if any(isinstance(found, Failure) and found.kind == OTHER_BITS for _, found in evaluated):
            entries = tuple(entry for entry in entries if not entry.regional_parameter)
            evaluated += self._compose(self._profiler, best, entries, time_limit)
        return evaluated

    def _compose(
        self, profiler: KernelProfiler, best: Scored, entries: Sequence[CatalogEntry], time_limit: TimeLimit
    ) -> list[tuple[Candidate, Scored | Failure]]:
        build, begin = best.candidate.build, best.candidate.pipeline
        found = self.composition = Composer(profiler, entries, time_limit=time_limit, build=build).compose(begin)
        if isinstance(found, Failure):
            _log.warning("nothing was composed of single kernels: %s", found.reason)
        if isinstance(found, Failure) or found.pipeline == begin:
            return []
        # Whatever number of trials is left: all that came before it was timed for this candidate.
        return [(composed := Candidate(found.pipeline, build, COMPOSED), self.evaluation.evaluate(composed))]

    def _decide_precision(self) -> None:
        """Decide on the precision of every layer's weights in the best candidate, and evaluate what was decided."""
        best = self._best_with_kernels()
        if self._precision is None or self._profiler is None:
            return
        if best is None:
            reason = "no candidate has a pass that schedules single kernels"
            self.precision = Failure("compile_error", "apply", "", reason)
            return
        self._begin_phase("measuring the error of every layer")
        chooser = PrecisionChooser(
            *(self._profiler, *self._precision, self._space.entries),
            time_limit=self._time_limit,
            build=best.candidate.build,
        )

        def evaluate(candidate: Candidate) -> Gain | Failure:
            scored = self.evaluation.evaluate(candidate)
            if isinstance(scored, Failure):
                return scored
            has_ratios = scored.ratio is not None and best.ratio is not None
            ratio = scored.ratio.value / best.ratio.value if has_ratios else None  # type: ignore[union-attr]
            return Gain(scored.candidate.pipeline, ratio)

        self.precision = chooser.decide(best.candidate.pipeline, evaluate)
        if isinstance(self.precision, Failure):
            _log.warning("no precision was decided: %s", self.precision.reason)

    def _explore(self) -> None:
        """Close the space, if the time suffices; a resumed run takes the edges that it had when it first explored."""
        # The time limit is for all runs on the network together. Otherwise every run on a network whose space does not
        # close would explore for that long, and would have its first trials only then.
        explorer = self._explorer
        if explorer is None or self._explore_s <= 0 or self._is_over():
            return
        self._begin_phase("exploring orders of passes")
        resumed, steps = explorer.explored, self._space.bounded
        _log.debug("exploring %s", "again, by recorded edges alone" if resumed else "for the first time in this run")
        seconds = 0.0 if resumed else max(self._explore_s - explorer.explored_s(steps), 0.0)
        exploration = Exploration(
            explorer,
            steps,
            limits=ExplorationLimits(seconds=seconds, no_op_states=self._evaluator.plans.no_op_states),
            compilers=self._compilers,
            progress=lambda *_: self._progress(self.evaluation.counts, None),
            cached_edge=explorer.cached_edge_before_sampling if resumed else explorer.cached_edge,
        )
        growth = exploration.run()
        if not resumed:
            explorer.record_exploration(steps, seconds=growth.seconds)
        self.evaluation.list_failures(self._space.steps)

    @property
    def _closed(self) -> bool:
        return self._evaluator.graph.closed(self._space.steps)

    @property
    def _closed_without(self) -> tuple[str, ...]:
        """Names of the unbounded passes if the space is closed without them but not with them; else empty."""
        bounded = not self._closed and self._evaluator.graph.closed(self._space.bounded)
        return self._space.unbounded if bounded else ()

    def _optimise(self, study: optuna.Study, strategy: Strategy) -> None:
        unproductive = 0  # proposals in a row that led to nothing new
        while not self._is_over() and unproductive < PATIENCE:
            exhausted = strategy.prepare()
            if exhausted:
                self._ended = exhausted
                return
            # The distributions are stated anew for every trial, because the space of a graph grows with it.
            trial = study.ask(strategy.space.distributions())
            before = self.evaluation.counts.evaluated
            outcome = self.evaluation.evaluate(strategy.space.decode(trial.params))
            values, attributes = self._trial_values(outcome)
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            study.tell(trial, values)
            unproductive = 0 if self.evaluation.counts.evaluated > before else unproductive + 1
        if self._is_enough():
            self._ended = self._needless
            return
        nothing_new = f"the sampler proposed nothing new {PATIENCE} times in a row"
        self._ended = (
            nothing_new if unproductive >= PATIENCE else "all trials done" if self._trials_are_done() else TIME_LIMIT
        )

    def _add_trial(
        self, study: optuna.Study, strategy: Strategy, *, candidate: Candidate, outcome: Scored | Failure
    ) -> None:
        """Tell the sampler about a candidate that it did not propose."""
        # Some of TVM's levels, and sequences with other passes, lie outside the space of a sampler.
        keys = strategy.space.encode(candidate)
        if keys is None:
            return
        values, attributes = self._trial_values(outcome)
        trial = optuna.trial.create_trial(
            params=dict(keys),
            distributions=strategy.space.distributions(),
            values=values,
            user_attrs=dict(attributes),
            system_attrs=dict(strategy.attributes),
        )
        study.add_trial(trial)

    def _trial_values(self, outcome: Scored | Failure) -> tuple[list[float], Mapping[str, float]]:
        assert self.evaluation.scoring is not None
        return self.evaluation.scoring.trial_values(outcome)

    def _is_over(self) -> bool:
        return self._is_enough() or self._trials_are_done() or self._time_is_over()

    def _is_enough(self) -> bool:
        """Return whether a search is needless, and a candidate beside the baseline is measured."""
        return bool(self._needless) and len(self.evaluation.scored) > 1

    def _time_is_over(self) -> bool:
        """Return whether the search has to end now, by a plan that knows what it has found."""
        evaluation = self.evaluation
        assert evaluation.scoring is not None
        end_s = self._end_s(evaluation.scoring.baseline, evaluation.fastest, evaluation.leader)
        self._time_limit = replace(self._time_limit, limit_s=end_s)
        return self._time_limit.is_over

    def _trials_are_done(self) -> bool:
        return self.evaluation.counts.evaluated >= self._options.trials


def _is_faster(outcome: Scored | Failure) -> bool:
    """Return whether a candidate was measured to be faster than the baseline."""
    return isinstance(outcome, Scored) and outcome.ratio is not None and outcome.ratio.value > 1.0
