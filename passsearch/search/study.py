"""The search: Optuna proposes sequences, equal IR is evaluated once, the best few are measured against each other."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import optuna

from passsearch.core import BuildOptions, Candidate, Failure, Interval, Objective, Pipeline
from passsearch.evaluate.evaluator import SEARCH_WINDOWS, Built, Evaluator
from passsearch.evaluate.exploration import Exploration, Limits
from passsearch.measure import (
    CONSUMED,
    Ratio,
    consumed_log_ratio,
    has_consumption,
    one_process_ratio,
)
from passsearch.search.graph_space import GraphSpace
from passsearch.search.records import Plan, Scored, Tally
from passsearch.search.samplers import REJECTED, Strategy, keeping, strategy
from passsearch.search.space import Space

PATIENCE = 150
"""Sequences in a row that lead to nothing new before a search gives up: its sampler has nothing new to propose."""

KEPT = 8
"""Built networks kept on disk for the shortlist; one can be as large as the network's parameters."""

SAME = Ratio(1.0, Interval(1.0, 1.0))

EXPANDED = 5
"""Where the space is not closed, passes are applied to a measured state if it is one of so many best."""


class Search:
    """One search over one evaluator. ``run`` may be interrupted; what is known then stands in its attributes.

    Attributes:
        sampler: Name of the strategy that proposed.
        ended: Why it proposed no more.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        space: Space,
        *,
        plan: Plan,
        baselines: Sequence[Candidate],
        default_baseline: str,
        first: Sequence[Candidate],
        elapsed_s: Callable[[], float],
        progress: Callable[[Tally, Scored | None], None],
    ) -> None:
        self.evaluator, self.space, self.plan = evaluator, space, plan
        self.tally = Tally()
        self.scored: dict[str, Scored] = {}
        self._known: dict[str, Scored | Failure] = {}
        self._noted: set[tuple[str, str]] = set()
        self._free: set[int] = set()  # failures, by identity, that exploring met: no candidate was spent
        self._baselines, self._first = baselines, first
        self._default = next(each for each in baselines if each.name == default_baseline)
        self._elapsed_s, self._progress = elapsed_s, progress
        self.baseline: Built | None = None
        self.sampler = plan.sampler
        self.ended = "interrupted"

    def run(self) -> None:
        """The baseline, then named sequences, then whatever the sampler proposes in the space as far as it is known."""
        known: list[tuple[Candidate, Scored | Failure]] = [(self._default, self._measure_baseline())]
        # The compiler's other levels rarely win: a short search has one sequence that may before it comes to them.
        known += self._tried(self._first[:1]) + self._other_baselines() + self._tried(self._first[1:])
        self._explore()
        evaluator = self.evaluator
        graph = GraphSpace(
            evaluator.graph,
            evaluator.reach,
            census=evaluator.census,
            steps=self.space.steps,
            builds=self.space.builds,
        )
        names = {"seed": self.plan.seed, "objectives": len(self.plan.objectives)}
        chosen = strategy(self.plan.sampler, self.space, graph=graph, **names)
        self.sampler = chosen.name
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(directions=["maximize"] * len(self.plan.objectives), sampler=chosen.sampler)
        for candidate, outcome in known:
            self._tell_known(study, chosen, candidate=candidate, outcome=outcome)
        self._optimise(study, chosen)
        self._note_failures()

    def values(self, scored: Scored) -> list[float]:
        """Per objective, the log of how many times better than the baseline; larger is always better."""
        return [math.log(self.gain(objective, scored)) for objective in self.plan.objectives]

    def gain(self, objective: Objective, scored: Scored) -> float:
        """How many times better than the baseline, by the search's own (unconfirmed) measurement."""
        if objective.name in ("throughput", "latency"):
            assert scored.ratio is not None
            return scored.ratio.value
        if objective.name == "compile_time":
            return self.default_scored.compile_s / scored.compile_s
        if objective.name in CONSUMED:
            if self.same(scored.built):
                return 1.0
            baseline, candidate = scored.consumed
            return math.exp(consumed_log_ratio(baseline, candidate, objective=objective.name))
        return (self.default_scored.built.peak_rss or 1) / max(scored.built.peak_rss or 1, 1)

    @property
    def default_scored(self) -> Scored:
        """The baseline to beat, as measured against itself."""
        assert self.baseline is not None
        return self.scored[self.baseline.key]

    def best_so_far(self) -> Scored | None:
        """The best of what is known, for a search that was interrupted."""
        if self.baseline is None or self.baseline.key not in self.scored:
            return None
        return next(iter(self.ranked()), self.default_scored)

    def _measure_baseline(self) -> Scored:
        """The one to beat; without it there is nothing to compare with."""
        state = self.evaluator.graph.root
        reference = self.evaluator.built(state, Candidate())  # of all outputs; it would be built by itself else
        if isinstance(reference, Failure):
            raise BaselineFailed(reference)
        baseline = self.evaluator.built(state, self._default)
        if isinstance(baseline, Failure):
            raise BaselineFailed(baseline)
        self.baseline = baseline
        outcome = self._evaluate(self._default, is_baseline=True)
        if isinstance(outcome, Failure):
            raise BaselineFailed(outcome)
        return outcome

    def _tried(self, candidates: Sequence[Candidate]) -> list[tuple[Candidate, Scored | Failure]]:
        return [(each, self._evaluate(each)) for each in candidates if not self._over()]

    def _other_baselines(self) -> list[tuple[Candidate, Scored | Failure]]:
        """Of the compiler's other levels those that the time suffices for; they cost no trial."""
        others = [each for each in self._baselines if each is not self._default]
        return [(each, self._evaluate(each, is_baseline=True)) for each in others if not self._late()]

    def _explore(self) -> None:
        """Close the space, if the time suffices; a run that goes on takes in what was known then.

        The time is that of all runs on the network together, so that later ones have their first trials at once.
        Passes with which it would never close are applied to the best states only, while the sampler proposes.
        """
        if self.plan.explore_s <= 0 or self._over():
            return
        again = self.evaluator.explored
        steps = self.space.bounded
        seconds = 0.0 if again else max(self.plan.explore_s - self.evaluator.explored_s(steps), 0.0)
        known = self.evaluator.known_when_explored if again else self.evaluator.known

        def told(_: int, __: int) -> None:
            self._progress(self.tally, None)

        limits, compilers = Limits(seconds=seconds), self.plan.compilers
        exploration = Exploration(self.evaluator, steps, limits=limits, compilers=compilers, progress=told, known=known)
        growth = exploration.run()
        if not again:
            self.evaluator.note_explored(steps, seconds=growth.seconds)
        self._note_failures()

    def _note_failures(self) -> None:
        """Passes that failed while the space was explored, one line for each way to fail; no candidate was spent."""
        graph = self.evaluator.graph
        noted = {id(failure) for _, failure in self.tally.failures}
        for state, step, failure in graph.failures(self.space.steps):
            self._free.add(id(failure))
            if id(failure) not in noted and (failure.step, failure.kind) not in self._noted:
                pipeline = Pipeline((*graph.cheapest(state)[0].passes, step))
                self.tally.failures.append((Candidate(pipeline), failure))
            self._noted.add((failure.step, failure.kind))

    @property
    def closed(self) -> bool:
        """Whether every sequence of the space's passes leads to a known state."""
        return self.evaluator.graph.closed(self.space.steps)

    @property
    def closed_without(self) -> tuple[str, ...]:
        """The passes without which that is so, where it is not so with them."""
        return self.space.unbounded if not self.closed and self.evaluator.graph.closed(self.space.bounded) else ()

    def _optimise(self, study: optuna.Study, chosen: Strategy) -> None:
        idle = 0
        while not self._over() and idle < PATIENCE:
            if chosen.name == "graph":
                self._expand_best()
                if not self._unmeasured():
                    self.ended = "the space is closed and every state of it is measured"
                    return
            trial = study.ask(chosen.space.distributions())
            before = self.tally.evaluated
            candidate = chosen.space.decode(trial.params)
            outcome = self._evaluate(candidate)
            values, attributes = self._told(outcome)
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            study.tell(trial, values)
            idle = 0 if self.tally.evaluated > before else idle + 1
        nothing_new = f"the sampler proposed nothing new {PATIENCE} times in a row"
        self.ended = nothing_new if idle >= PATIENCE else "all trials done" if self._done() else "time limit"

    def _expand_best(self) -> None:
        """Find the neighbours of the best states, baselines and named sequences among them; known ones cost nothing."""
        for each in self.ranked()[:EXPANDED]:
            state = self.evaluator.reach(each.candidate.pipeline)
            if isinstance(state, str) and not self._over():
                self.evaluator.expand(state, self.space.steps)

    def _unmeasured(self) -> bool:
        """Whether there is a state left to measure; where none is known, the nearest unknown ones are looked for."""
        graph = self.evaluator.graph
        while all(_key(state, build) in self._known for state in graph for build in self.space.builds):
            open_ = graph.first_untried(self.space.steps)
            if open_ is None:
                return False
            if self._over():
                break
            self.evaluator.expand(open_, self.space.steps)
        return True

    def _tell_known(
        self, study: optuna.Study, chosen: Strategy, *, candidate: Candidate, outcome: Scored | Failure
    ) -> None:
        keys = chosen.space.encode(candidate)
        values, attributes = self._told(outcome)
        if keys is not None:
            trial = optuna.trial.create_trial(
                params=dict(keys),
                distributions=chosen.space.distributions(),
                values=values,
                user_attrs=attributes,
            )
            study.add_trial(trial)

    def _told(self, outcome: Scored | Failure) -> tuple[list[float], dict[str, float]]:
        """Values and attributes of a trial."""
        if isinstance(outcome, Failure):
            return [REJECTED] * len(self.plan.objectives), {}
        values = self.values(outcome)
        if not self._keeps:
            return values, {}
        assert outcome.ratio is not None
        value, attributes = keeping(values[0], ratio=outcome.ratio.value, least=self.plan.keep_throughput)
        return [value], attributes

    def admissible(self, scored: Scored) -> bool:
        """Whether a candidate keeps enough throughput, where that is a condition and not the objective.

        By what it reads: whether it is certain is for the confirmation to say.
        """
        return not self._keeps or (scored.ratio is not None and scored.ratio.value >= self.plan.keep_throughput)

    @property
    def _keeps(self) -> bool:
        """Whether throughput is a condition."""
        one = len(self.plan.objectives) == 1 and self.plan.objectives[0].name not in ("throughput", "latency")
        return one and self.plan.keep_throughput > 0

    def _over(self) -> bool:
        return self._late() or self._done()

    def _late(self) -> bool:
        return self.plan.timeout_s is not None and self._elapsed_s() >= self.plan.timeout_s

    def _done(self) -> bool:
        return self.tally.evaluated >= self.plan.trials

    def _evaluate(self, candidate: Candidate, *, is_baseline: bool = False) -> Scored | Failure:
        self.tally.asked += not is_baseline
        state = self.evaluator.reach(candidate.pipeline)
        if isinstance(state, Failure):
            self.tally.invalid += 1
            return self._failed(candidate, state)
        key = _key(state, candidate.build)
        known = self._known.get(key)
        if known is not None:
            self.tally.duplicates += 1
            return known
        # Outputs are judged by what would be deployed: a pass that changed nothing here excuses no deviation.
        pipeline, apply_s = self.evaluator.graph.cheapest(state)
        candidate = replace(candidate, pipeline=pipeline)
        outcome = self._known[key] = self._measure(state, candidate, apply_s=apply_s)
        if isinstance(outcome, Failure):
            return self._failed(candidate, outcome)
        self.tally.evaluated += not is_baseline
        self.scored[outcome.built.key] = outcome
        self._tidy()
        self._progress(self.tally, outcome)
        return outcome

    def _tidy(self) -> None:
        """Keep the files of the baseline and of candidates that may make the shortlist."""
        for each in self.ranked()[KEPT:] if len(self.scored) > KEPT else ():
            if self.baseline is None or each.built.key != self.baseline.key:
                self.evaluator.discard(each.built)

    def _failed(self, candidate: Candidate, failure: Failure) -> Failure:
        """Count a failure once, however many sequences run into it; it took its time, so it is an evaluation too."""
        if id(failure) not in self._free and not any(failure is each for _, each in self.tally.failures):
            self.tally.failures.append((candidate, failure))
            self.tally.evaluated += 1
            self._progress(self.tally, None)
        return failure

    def _measure(self, state: str, candidate: Candidate, *, apply_s: float) -> Scored | Failure:
        assert self.baseline is not None
        built = self.evaluator.built(state, candidate)
        if isinstance(built, Failure):
            return built
        answer = self.evaluator.samples(self.baseline, built)
        if isinstance(answer, Failure):
            return answer
        baseline_s, latency_s = answer["samples"]
        consumed = self._consumption(built)
        if isinstance(consumed, Failure):
            return consumed
        return Scored(
            candidate=candidate,
            built=built,
            ratio=self.same(built) or (one_process_ratio(baseline_s, latency_s) if latency_s else None),
            latency_s=tuple(latency_s),
            baseline_latency_s=tuple(baseline_s),
            compile_s=apply_s + built.seconds,
            apply_s=apply_s,
            batch=self.evaluator.batch,
            conditions=answer["conditions"],
            consumed=tuple(consumed),
        )

    def _consumption(self, built: Built) -> Sequence[Mapping[str, Any]] | Failure:
        """Of baseline and candidate in turn, where it is an objective; else of nobody."""
        assert self.baseline is not None
        wanted = [objective.name for objective in self.plan.objectives if objective.name in CONSUMED]
        if not wanted:
            return ()
        folders = [str(self.baseline.folder), str(built.folder)]
        answer = self.evaluator.consumption(built.digest, folders, plan=SEARCH_WINDOWS)
        if answer is None:  # what an earlier run built is remembered, its files are gone
            for each in (self.baseline, built):
                self.evaluator.restore(each)
            answer = self.evaluator.consumption(built.digest, folders, plan=SEARCH_WINDOWS)
        if isinstance(answer, Failure):
            return answer
        read: list[dict[str, Any]] = answer["consumed"] if answer else []
        if not read or not all(has_consumption(each, objective) for each in read for objective in wanted):
            return Failure("infra", "measure", "", f"the device did not tell its {' and '.join(wanted)}")
        return read

    def same(self, built: Built) -> Ratio | None:
        """Exactly 1 for the very binary the baseline is, whatever pipeline made it."""
        assert self.baseline is not None
        return SAME if built.digest == self.baseline.digest else None

    def _stands(self, scored: Scored) -> bool:
        """Whether its pipeline has no pass that was found unsteady later."""
        if not self.evaluator.graph.forbids:
            return True
        return isinstance(self.evaluator.reach(scored.candidate.pipeline), str)

    def ranked(self) -> list[Scored]:
        """Admissible candidates, the best by the first objective first."""
        first = self.plan.objectives[0]
        admitted = [each for each in self.scored.values() if self.admissible(each) and self._stands(each)]
        return sorted(admitted, key=lambda each: -self.gain(first, each))


def _key(state: str, build: BuildOptions) -> str:
    return f"{state}|{build}"


class BaselineFailed(Exception):
    """The baseline itself does not build, run or agree with the reference: there is nothing to compare with."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure
