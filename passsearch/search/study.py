"""The search: Optuna proposes sequences, equal IR is evaluated once, every outcome is reported back."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import optuna

from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import EdgeKey, Evaluator, Exploration, Explorer, KernelProfiler, Limits
from passsearch.search.candidate_measurement import FAR_SLOWER, LEAST_LONG_S, measure_candidate
from passsearch.search.composition import COMPOSED, Composer, decides_kernels
from passsearch.search.composition_records import Composition
from passsearch.search.graph_space import GraphSpace
from passsearch.search.options import RunOptions
from passsearch.search.records import TIME_LIMIT, Reference, Scored, SearchOutcome, SpaceCoverage, Tally
from passsearch.search.samplers import Strategy, make_strategy
from passsearch.search.scoring import FAR_FASTER, Scoring
from passsearch.search.shortlist import SHORTLIST
from passsearch.search.space import Space
from passsearch.search.variants import variants

# Large, because a sequence that leads to nothing new costs no measurement, and most do: of 114 random sequences on
# ResNet-18, 53 were duplicates and 16 failed.
PATIENCE = 150
"""Number of sequences in a row that lead to nothing new before a search ends."""

# More than the shortlist has, because several artifacts may be one binary. Few, because one artifact can be as large as
# the network's parameters.
KEPT_ARTIFACTS = 8
"""Number of artifacts that stay on disk for the shortlist."""

# The space never closes with some passes (`Space.unbounded`), so they are applied where they may help most.
EXPANDED_STATES = 5
"""Number of best states to which all passes are applied, where the space is not closed."""

_log = logging.getLogger(__name__)


class Search:
    """One search over one evaluator. ``run`` may be interrupted; ``outcome`` then holds everything evaluated so far.

    Attributes:
        scored: Evaluated candidates and baselines by key of the build.
        tally: Counts.
        scoring: Gains over the baseline; ``None`` until the baseline is measured.
        reference: The artifact beside which candidates are timed; ``None`` until the baseline is built.
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
        elapsed_s: Callable[[], float],
        progress: Callable[[Tally, Scored | None], None],
        explorer: Explorer | None = None,
        profiler: KernelProfiler | None = None,
        limit_s: Callable[[Scored, Scored], float] = lambda *_: math.inf,
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
            elapsed_s: Returns how long the run has lasted.
            progress: Callback; gets the counts and the newest candidate, ``None`` where it failed.
            explorer: Grows the state graph; without one, no state is looked for beyond those that candidates reach.
            profiler: Times single kernels; without one, no candidate is composed of the kernels of others.
            limit_s: Returns the time at which the search ends, on the clock of ``elapsed_s``, from the baseline and the
                candidate that became the reference; called again for every new reference.
            explore_s: Longest time to close the space before the sampler starts.
            compilers: Number of processes that apply passes side by side.
        """
        self._evaluator, self._explorer, self._space, self._options = evaluator, explorer, space, options
        self._baselines, self._first = baselines, [*first]
        self._default = next(candidate for candidate in baselines if candidate.name == default_baseline)
        self._elapsed_s, self._progress = elapsed_s, progress
        self._limit_s, self._explore_s, self._compilers = limit_s, explore_s, compilers
        self._profiler = profiler
        self._ends_s = math.inf
        self.tally = Tally()
        self.scored: dict[str, Scored] = {}
        self.scoring: Scoring | None = None
        self.reference: Reference | None = None
        self.composition: Composition | Failure | None = None
        self.phase = "searching"
        self._outcomes: dict[str, Scored | Failure] = {}  # by state and build
        self._counted_edges: set[EdgeKey] = set()  # failed edges that some candidate ran into
        self._explored_edges: set[EdgeKey] = set()  # failed edges that exploration found: they cost no trial
        self._listed_failures: set[tuple[str, str]] = set()  # pass and kind
        self._variants: dict[str, Iterator[Pipeline]] = {}  # not tried yet, by the pipeline they are variants of
        self._sampler, self._ended = options.sampler, "interrupted"

    def run(self) -> None:
        """Evaluate the baseline, then named sequences, then the sampler's proposals.

        Raises:
            BaselineFailed: There is nothing to compare with.
        """
        evaluated: list[tuple[Candidate, Scored | Failure]] = [(self._default, self._measure_baseline())]
        evaluated += self._evaluate_sequences()
        evaluated += self._evaluate_composed()
        evaluated += self._evaluate_sequences()
        # The compiler's other levels rarely win, and cost less beside a fast reference.
        evaluated += self._other_baselines()
        self._explore()
        self._begin("searching")
        # After the exploration, because a strategy over states numbers the states that there are.
        strategy = self._strategy()
        self._sampler = strategy.name
        # Optuna prints a line for each trial, and this package has its own log.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["maximize"] * len(self._options.objectives), sampler=strategy.sampler)
        for candidate, outcome in evaluated:
            self._add_trial(study, strategy, candidate=candidate, outcome=outcome)
        _log.info("sampling by %s, %d candidates evaluated so far", strategy.name, self.tally.evaluated)
        self._optimise(study, strategy)
        _log.info("the search ends: %s; %d candidates evaluated", self._ended, self.tally.evaluated)
        self._list_exploration_failures()  # again: the neighbours of the best states were explored meanwhile

    @property
    def outcome(self) -> SearchOutcome:
        """The result so far; the baseline must be measured."""
        assert self.scoring is not None
        graph, requested = self._evaluator.graph, self._options.requested_passes
        coverage = SpaceCoverage(
            states=graph.states,
            closed=self._closed,
            closed_without=self._closed_without,
            sampler=self._sampler,
            ended=self._ended,
            # Passes that the user asked for first: a user looks for those.
            idle=tuple(sorted(graph.idle_passes(), key=lambda name: name not in requested)),
            untried=tuple(name for name in requested if name not in graph.tried_passes()),
        )
        unsteady = frozenset(key for key, scored in self.scored.items() if not self._is_deterministic(scored))
        return SearchOutcome(self.scoring.baseline, self.scored, self.tally, coverage, self.composition, unsteady)

    def ranked(self) -> list[Scored]:
        """Return the admissible candidates whose pipelines still lead to a state, the best first."""
        # A pass may be found nondeterministic after candidates with it were evaluated.
        assert self.scoring is not None
        return self.scoring.rank(scored for scored in self.scored.values() if self._is_deterministic(scored))

    def _strategy(self) -> Strategy:
        graph = GraphSpace(
            self._evaluator.graph,
            self._evaluator.reach,
            op_counts=self._evaluator.op_counts,
            steps=self._space.steps,
            builds=self._space.builds,
        )
        number, seed = len(self._options.objectives), self._options.seed
        return make_strategy(self._options.sampler, self._space, graph=graph, seed=seed, objectives=number)

    def _measure_baseline(self) -> Scored:
        built = self._evaluator.build(self._evaluator.graph.root, self._default)
        if isinstance(built, Failure):
            raise BaselineFailed(built)
        self._baseline, self.reference = built, Reference(built)
        outcome = self._evaluate(self._default, is_baseline=True)
        if isinstance(outcome, Failure):
            raise BaselineFailed(outcome)
        return outcome

    def _begin(self, phase: str) -> None:
        """Tell the user what the search does from now on."""
        self.phase = phase
        self._progress(self.tally, None)

    def _evaluate_sequences(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the named sequences until the search is over.

        Where kernels can be decided on, sequences wait for that when half of the search's time is over.

        The first one also has its turn where a slow baseline has used the search's share of a time limit, while half of
        the limit is left: the share for the confirmation is too large until a fast candidate is known.
        """
        evaluated: list[tuple[Candidate, Scored | Failure]] = []
        begun_s = self._elapsed_s()
        while self._first:
            is_first_turn = not self.tally.proposed and self._elapsed_s() < (self._options.timeout_s or 0.0) / 2
            if self._trials_are_done() or (self._time_is_up() and not is_first_turn):
                break
            # On BERT-base, sequences that differ by 1 % took all the time that kernels need.
            is_half_over = self._elapsed_s() - begun_s > self._left_s()
            if is_half_over and self.composition is None and self._best_with_kernels():
                _log.info("further sequences wait, because half of the search's time is for kernels")
                break
            candidate = self._first.pop(0)
            evaluated.append((candidate, self._evaluate(candidate)))
        return evaluated

    def _best_with_kernels(self) -> Scored | None:
        """Return the best candidate whose kernels can be decided on, where that serves an objective."""
        objectives = {objective.name for objective in self._options.objectives}
        if self._profiler is None or not objectives & {"throughput", "latency"}:
            return None
        # A sequence of other rules may be faster than the one whose kernels can be decided on.
        entries = self._space.entries
        return next((scored for scored in self.ranked() if decides_kernels(scored.candidate.pipeline, entries)), None)

    def _other_baselines(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the compiler's other levels while time is left; they cost no trial."""
        others = [candidate for candidate in self._baselines if candidate is not self._default]
        return [
            (candidate, self._evaluate(candidate, is_baseline=True)) for candidate in others if not self._time_is_up()
        ]

    def _evaluate_composed(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Evaluate the pipeline that is composed of the best decisions for each region and kernel."""
        best = self._best_with_kernels()
        if self._profiler is None or best is None:
            return []
        self._begin("timing kernels one by one")
        build = best.candidate.build
        composer = Composer(self._profiler, self._space.entries, left_s=self._left_s, build=build)
        self.composition = composer.compose(best.candidate.pipeline)
        if isinstance(self.composition, Failure):
            _log.warning("nothing was composed of single kernels: %s", self.composition.reason)
            return []
        if self.composition.pipeline == best.candidate.pipeline:
            return []
        # Whatever number of trials is left: all that came before it was timed for this candidate.
        composed = Candidate(self.composition.pipeline, build, COMPOSED)
        return [(composed, self._evaluate(composed))]

    def _explore(self) -> None:
        """Close the space, if the time suffices; a resumed run takes the edges that it had when it first explored."""
        # The time limit is for all runs on the network together. Otherwise every run on a network whose space does not
        # close would explore for that long, and would have its first trials only then.
        explorer = self._explorer
        if explorer is None or self._explore_s <= 0 or self._is_over():
            return
        self._begin("exploring orders of passes")
        resumed, steps = explorer.explored, self._space.bounded
        _log.debug("exploring %s", "again, by recorded edges alone" if resumed else "for the first time in this run")
        seconds = 0.0 if resumed else max(self._explore_s - explorer.explored_s(steps), 0.0)
        exploration = Exploration(
            explorer,
            steps,
            limits=Limits(seconds=seconds, no_op_states=self._evaluator.plans.no_op_states),
            compilers=self._compilers,
            progress=lambda *_: self._progress(self.tally, None),
            cached_edge=explorer.cached_edge_before_sampling if resumed else explorer.cached_edge,
        )
        growth = exploration.run()
        if not resumed:
            explorer.record_exploration(steps, seconds=growth.seconds)
        self._list_exploration_failures()

    def _list_exploration_failures(self) -> None:
        """List passes that failed while the space was explored, once for each kind of failure; they cost no trial."""
        # Once for each pass and kind of failure: AlterOpLayout failed on 169 of 885 states of an SSD for one reason.
        graph = self._evaluator.graph
        for failed in graph.failures(self._space.steps):
            self._explored_edges.add(failed.key)
            kind = (failed.failure.step, failed.failure.kind)
            if failed.key not in self._counted_edges and kind not in self._listed_failures:
                pipeline = Pipeline((*graph.cheapest(failed.state)[0].passes, failed.step))
                self._counted_edges.add(failed.key)
                self.tally.failures.append((Candidate(pipeline), failed.failure))
            self._listed_failures.add(kind)

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
            if strategy.name == "graph":
                self._expand_best()
                self._reach_variants()
                if not self._has_unmeasured():
                    self._ended = "the space is closed and every state of it is measured"
                    return
            # The distributions are stated anew for every trial, because the space of a graph grows with it.
            trial = study.ask(strategy.space.distributions())
            before = self.tally.evaluated
            outcome = self._evaluate(strategy.space.decode(trial.params))
            values, attributes = self._trial_values(outcome)
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            study.tell(trial, values)
            unproductive = 0 if self.tally.evaluated > before else unproductive + 1
        nothing_new = f"the sampler proposed nothing new {PATIENCE} times in a row"
        self._ended = (
            nothing_new if unproductive >= PATIENCE else "all trials done" if self._trials_are_done() else TIME_LIMIT
        )

    def _expand_best(self) -> None:
        """Find the neighbours of the best states, baselines and named sequences included; recorded ones are free."""
        # Before every proposal, so that the sampler decides by what it measures which part of the space is explored.
        for scored in self.ranked()[:EXPANDED_STATES] if self._explorer else ():
            state = self._evaluator.reach(scored.candidate.pipeline)
            if isinstance(state, str) and not self._is_over() and self._explorer:
                self._explorer.expand(state, self._space.steps)

    def _reach_variants(self) -> None:
        """Apply variants of the best pipelines until one of them leads to a state that is not measured."""
        # Exploration begins at the imported network. Where a good state is a dozen passes away, the states it explores
        # in minutes are all far from it: of the first 43 of a ResNet-18, none had scheduled kernels.
        steps, seed = self._space.steps, self._options.seed
        for scored in self.ranked()[:EXPANDED_STATES] if self._explorer else ():
            pipeline = scored.candidate.pipeline
            untried = self._variants.setdefault(str(pipeline), variants(pipeline, steps, seed=seed))
            for variant in untried:
                if self._is_over():
                    return
                state = self._evaluator.reach(variant)
                if isinstance(state, str) and not self._is_measured(state):
                    return

    def _is_measured(self, state: str) -> bool:
        """Return whether a state was evaluated with every build."""
        return all(_key(state, build) in self._outcomes for build in self._space.builds)

    def _has_unmeasured(self) -> bool:
        """Return whether a state is left to measure; where none is known, passes are applied until there is one."""
        graph = self._evaluator.graph
        while all(self._is_measured(state) for state in graph):
            incomplete = graph.first_untried(self._space.steps) if self._explorer else None
            if incomplete is None or self._explorer is None:
                return False
            if self._is_over():
                break
            self._explorer.expand(incomplete, self._space.steps)
        return True

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
        )
        study.add_trial(trial)

    def _trial_values(self, outcome: Scored | Failure) -> tuple[list[float], Mapping[str, float]]:
        assert self.scoring is not None
        return self.scoring.trial_values(outcome)

    def _is_over(self) -> bool:
        return self._time_is_up() or self._trials_are_done()

    def _time_is_up(self) -> bool:
        return self._left_s() <= 0

    def _left_s(self) -> float:
        return self._ends_s - self._elapsed_s()

    def _trials_are_done(self) -> bool:
        return self.tally.evaluated >= self._options.trials

    def _evaluate(self, candidate: Candidate, *, is_baseline: bool = False) -> Scored | Failure:
        self.tally.proposed += not is_baseline
        state = self._evaluator.reach(candidate.pipeline)
        if isinstance(state, Failure):
            self.tally.invalid += 1
            return self._failed_to_apply(candidate, state, is_baseline=is_baseline)
        key = _key(state, candidate.build)
        if key in self._outcomes:
            self.tally.duplicates += 1
            _log.debug("%s leads to a known IR", candidate)
            return self._outcomes[key]
        # The outputs of the cheapest pipeline are judged, as it would be deployed: a pass that may change numerics but
        # changed nothing here excuses no deviation.
        pipeline, apply_s = self._evaluator.graph.cheapest(state)
        candidate = replace(candidate, pipeline=pipeline)
        assert self.reference is not None
        self._make_room()
        outcome = self._outcomes[key] = measure_candidate(
            self._evaluator,
            candidate,
            state=state,
            apply_s=apply_s,
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

    def _count(self, scored: Scored, *, is_baseline: bool) -> None:
        if self.scoring is None:  # the baseline is evaluated first
            self.scoring = Scoring(self._options, scored)
            self._use_reference(scored)
        _log.info("%s: %s", scored.candidate.name or scored.candidate, _summary(scored))
        self.tally.evaluated += not is_baseline
        self.scored[scored.built.key] = scored
        # Only a far faster one: the error of the reference's own ratio goes into every later ratio, and facts that runs
        # share are of pairs.
        assert self.reference is not None
        if scored.ratio is not None and scored.ratio.value > FAR_FASTER * self.reference.gain:
            self._use_reference(scored)
        self._discard_losers()
        self._progress(self.tally, scored)

    def _use_reference(self, scored: Scored) -> None:
        """Time all later candidates beside this one."""
        assert self.scoring is not None
        gain = scored.ratio.value if scored.ratio else 1.0
        self.reference = Reference(scored.built, gain, min(scored.latency_s, default=None))
        self._ends_s = self._limit_s(self.scoring.baseline, scored)
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
        for_speed = [objective.name for objective in options.objectives] in (["throughput"], ["latency"])
        return max(FAR_SLOWER * reference.latency_s, LEAST_LONG_S) if for_speed else math.inf

    def _make_room(self) -> None:
        """Where the disk is short, keep the files of the candidates that the shortlist measures, as of now."""
        assert self.reference is not None
        best = [scored.built for scored in self.ranked()[:SHORTLIST]] if self.scoring else []
        self._evaluator.make_room([self._baseline, self.reference.built, *best])

    def _discard_losers(self) -> None:
        """Delete the files of candidates that will not make the shortlist."""
        assert self.reference is not None
        in_use = {self._baseline.key, self.reference.built.key}
        for scored in self.ranked()[KEPT_ARTIFACTS:] if len(self.scored) > KEPT_ARTIFACTS else ():
            if scored.built.key not in in_use:
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
        self.tally.failures.append((candidate, failure))
        self.tally.evaluated += not is_baseline
        self._progress(self.tally, None)

    def _is_deterministic(self, scored: Scored) -> bool:
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
