"""The choices of a search, on a simulated machine whose candidates are known."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.catalog import load
from passsearch.core import BuildOptions, Candidate, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import Built, CandidateSamples, Consumed, TimedSamples, TimingRequest
from passsearch.evaluate.testing import Machine, Noise, SimulatedEvaluator
from passsearch.measure import Consumption
from passsearch.objectives import parse_objective
from passsearch.search import RunOptions, Scored, Search, Space, document, shortlist, study
from passsearch.search.graph_space import GraphSpace
from passsearch.search.records import Reference
from passsearch.search.samplers import STRATEGIES, Strategy
from passsearch.search.scoring import Scoring
from passsearch.search.shortlist import SHORTLIST

BASELINE = Candidate(build=BuildOptions(opt_level=3), name="O3")
COMPILE_S = {"Same": 5.0, "SlowSame": 40.0, "Equal": 8.0, "Quick": 2.0, "Fast": 15.0, "Near": 14.5}
SAME = ("Same", "SlowSame")


class KnownCandidates(SimulatedEvaluator):
    """Candidates with the compile times above; two of them are the baseline's own binary."""

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return an artifact; the baseline compiles in 20 s."""
        built = super().build(state, candidate)
        assert isinstance(built, Built)
        return replace(built, digest="root" if state in SAME else state, seconds=COMPILE_S.get(state, 20.0))


@dataclass(frozen=True)
class Result:
    """A finished search and its finalists, the winner first."""

    search: Search
    finalists: list[Scored]

    @property
    def winner(self) -> str:
        return str(self.finalists[0].candidate.pipeline)


def make_search(
    evaluator: SimulatedEvaluator,
    names: Sequence[str],
    objective: str = "throughput",
    *,
    keep_throughput: float = 0.98,
    needless: str = "",
) -> Search:
    options = RunOptions((parse_objective(objective),), len(names), keep_throughput=keep_throughput)
    return Search(
        evaluator,
        Space(load("relay"), (), frozenset()),
        options=options,
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline((PassSpec.of(name),))) for name in names],
        progress=lambda *_: None,
        needless=needless,
    )


def search(
    gains: Mapping[str, float],
    names: Sequence[str],
    objective: str = "throughput",
    *,
    seed: int = 0,
    keep_throughput: float = 0.98,
) -> Result:
    evaluator = KnownCandidates(Machine(Noise(), seed), gains)
    study = make_search(evaluator, names, objective, keep_throughput=keep_throughput)
    study.run()
    assert study.evaluation.scoring is not None and study.evaluation.reference is not None
    return Result(
        study,
        shortlist(evaluator, study.evaluation.scoring, study.evaluation.ranked(), reference=study.evaluation.reference),
    )


def test_where_nothing_is_faster_the_baselines_own_binary_by_a_quicker_pipeline_wins() -> None:
    result = search({}, ["Equal", "SlowSame", "Same"])
    assert result.winner == "Same"
    same = next(
        scored for scored in result.search.evaluation.scored.values() if str(scored.candidate.pipeline) == "Same"
    )
    assert same.ratio and same.ratio.value == same.ratio.interval.low == same.ratio.interval.high == 1.0


def test_the_same_binary_by_a_slower_pipeline_does_not() -> None:
    assert search({}, ["Equal", "SlowSame"]).winner == "Equal"


def test_a_candidate_that_is_really_faster_does() -> None:
    winners = [search({"Fast": 1.1}, ["Same", "Equal", "Fast"], seed=seed).winner for seed in range(20)]
    assert winners.count("Fast") >= 19


def test_a_compile_that_is_hardly_quicker_does_not_choose_among_fast_candidates() -> None:
    gains = {"Fast": 1.05, "Near": 1.043}
    winners = [search(gains, ["Near", "Fast"], seed=seed).winner for seed in range(10)]
    assert winners.count("Fast") >= 9


def test_equal_candidates_hardly_ever_come_before_the_baselines_own_binary() -> None:
    names = ["Same", "Equal", "Other", "Third", "Fourth"]
    winners = [search({}, names, seed=seed).winner for seed in range(40)]
    assert winners.count("Same") >= 38


def test_a_search_for_compile_time_finds_it_and_keeps_throughput() -> None:
    names = ["Same", "Equal", "Quick", "Fast"]
    assert search({}, names, "compile_time").winner == "Quick"
    assert search({"Quick": 0.5}, names, "compile_time").winner == "Same"
    assert search({"Quick": 0.5}, names, "compile_time", keep_throughput=0.0).winner == "Quick"


class FailingCandidates(KnownCandidates):
    """Two candidates run into one failed edge, a third one into another."""

    def reach(self, pipeline: Pipeline) -> str | Failure:
        root = self.graph.root
        for step in pipeline.passes:
            if step.name == "Crash":
                failure = Failure("crash", "apply", "Crash", "it died")
                if self.graph.edge(root, step) is None:
                    from passsearch.evaluate import Edge

                    self.graph.add(root, step, edge=Edge(failure, 0.0))
                return failure
        return super().reach(pipeline)


def test_a_failed_edge_is_counted_once_however_many_sequences_run_into_it() -> None:
    evaluator = FailingCandidates(Machine(Noise(), 0), {})
    crash = [Pipeline.parse("Crash"), Pipeline.parse("Crash,Other")]
    study = Search(
        evaluator,
        Space(load("relay"), (), frozenset()),
        options=RunOptions((parse_objective("throughput"),), 2),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[*map(Candidate, crash), Candidate(Pipeline.parse("Equal"))],
        progress=lambda *_: None,
    )
    study.run()
    assert [failure.kind for _, failure in study.evaluation.counts.failures] == ["crash"]
    assert study.evaluation.counts.invalid == 2 and study.evaluation.counts.evaluated == 2, (
        "one for the edge, one for the candidate"
    )


def test_what_a_nondeterministic_pass_gave_is_neither_ranked_nor_on_the_front() -> None:
    evaluator = KnownCandidates(Machine(Noise(), 0), {"Fast": 1.1, "Near": 1.05})
    study = make_search(evaluator, ["Near", "Fast"])
    study.run()
    evaluator.graph.forbid(PassSpec.of("Fast"), Failure("unstable", "apply", "Fast", "it gave another IR"))
    [unsteady] = study.outcome.unoffered
    assert str(study.evaluation.scored[unsteady].candidate.pipeline) == "Fast"
    assert study.evaluation.scoring is not None
    both = (parse_objective("throughput"), parse_objective("compile_time"))
    scoring = replace(study.evaluation.scoring, options=replace(study.evaluation.scoring.options, objectives=both))
    front = [
        str(scored.candidate.pipeline)
        for scored in document._front(study.outcome, scoring, best=study.evaluation.ranked()[0])
    ]
    assert "Fast" not in front and "Near" in front


def test_a_search_ends_for_the_reason_that_its_strategy_states(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = iter(["", "", "both candidates are measured"])

    def two_proposals(space: Space, graph: GraphSpace, seed: int) -> Strategy:
        return replace(STRATEGIES["graph"](space, graph, seed), name="new", prepare=lambda: next(reasons))

    monkeypatch.setitem(STRATEGIES, "new", two_proposals)
    options = replace(RunOptions((parse_objective("throughput"),), 100), sampler="new")
    found = Search(
        KnownCandidates(Machine(Noise(), 0), {}),
        Space(load("relay"), (), frozenset()),
        options=options,
        baselines=[BASELINE],
        default_baseline="O3",
        first=[],
        progress=lambda *_: None,
    )
    found.run()
    coverage = found.outcome.coverage
    assert (coverage.sampler, coverage.source) == ("new", "explored state")
    assert coverage.ended == "both candidates are measured" and next(reasons, None) is None


@pytest.mark.parametrize(("gain", "measured"), [(1.3, 1), (0.8, 3)])
def test_a_search_is_needless_only_beyond_a_candidate_that_is_faster(gain: float, measured: int) -> None:
    evaluator = KnownCandidates(Machine(Noise(), 0), {"Near": gain, "Fast": 1.2, "Quick": 1.1})
    found = make_search(evaluator, ["Near", "Fast", "Quick"], needless="nothing is left")
    found.run()
    assert len(found.evaluation.scored) - 1 == measured
    assert (found.outcome.coverage.ended == "nothing is left") == (measured == 1)


def test_a_level_that_fails_costs_no_trial() -> None:
    study = Search(
        FailingCandidates(Machine(Noise(), 0), {}),
        Space(load("relay"), (), frozenset()),
        options=RunOptions((parse_objective("throughput"),), 1),
        baselines=[BASELINE, Candidate(Pipeline.parse("Crash"), name="O9")],
        default_baseline="O3",
        first=[Candidate(Pipeline.parse("Equal"))],
        progress=lambda *_: None,
    )
    study.run()
    assert [candidate.name for candidate, _ in study.evaluation.counts.failures] == ["O9"]
    assert study.evaluation.counts.evaluated == 1
    assert len(study.evaluation.scored) == 2, "the baseline and the candidate"


class SlowBaseline(KnownCandidates):
    """A baseline that takes seconds; counts what every artifact is timed beside."""

    def __init__(self, machine: Machine, gains: Mapping[str, float]) -> None:
        super().__init__(machine, gains)
        self.references = list[str]()

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        self.references.append(reference.digest)
        return super().sample(reference, candidate)


def test_the_plan_is_made_again_for_a_candidate_that_the_baseline_beats() -> None:
    """It is confirmed all the same, and may take longer to compile than the baseline."""
    plans = list[str]()
    study = Search(
        KnownCandidates(Machine(Noise(), 0), {"Near": 0.5, "Fast": 0.4}),
        Space(load("relay"), (), frozenset()),
        options=RunOptions((parse_objective("throughput"),), 3),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline.parse(name)) for name in ("Near", "Fast")],
        progress=lambda *_: None,
        end_s=lambda *best: plans.append(" ".join(str(each.candidate.pipeline) or "O3" for each in best)) or math.inf,
    )
    study.run()
    assert plans[:2] == ["O3 O3 O3", "O3 O3 Near"]


def test_candidates_are_timed_beside_a_far_faster_one_and_compared_with_the_baseline() -> None:
    evaluator = SlowBaseline(Machine(Noise(), 0), {"Fast": 120.0, "Quick": 150.0, "Equal": 130.0})
    names = ["Fast", "Quick", "Equal"]
    study = Search(
        evaluator,
        Space(load("relay"), (), frozenset()),
        options=RunOptions((parse_objective("throughput"),), len(names)),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline.parse(name)) for name in names],
        progress=lambda *_: None,
    )
    study.run()
    assert evaluator.references == ["root", "root", "Fast", "Fast"]
    assert study.evaluation.reference is not None and study.evaluation.scoring is not None
    ranked = shortlist(
        evaluator, study.evaluation.scoring, study.evaluation.ranked(), reference=study.evaluation.reference
    )
    assert str(ranked[0].candidate.pipeline) == "Quick"
    ratios = {str(each.candidate.pipeline): each.ratio.value for each in ranked if each.ratio}
    assert ratios == pytest.approx({"Fast": 120, "Quick": 150, "Equal": 130}, rel=0.1)
    # How much faster than the baseline the reference is comes from one process, which has no interval.
    assert {each.ratio.to_json()["interval"] for each in ranked if each.ratio} == {None}


class Remembering(KnownCandidates):
    """Samples of new processes are taken once for each key, as those in the log of a run."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.timed: dict[str, TimedSamples | Failure] = {}

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Return the samples in the log, or take them."""
        if request.key not in self.timed:
            self.timed[request.key] = super().time_fresh(request)
        return self.timed[request.key]


def test_a_shortlist_beside_another_reference_is_timed_anew() -> None:
    evaluator = Remembering(Machine(Noise(), 0), {"Quick": 1.9, "Fast": 1.85, "Old": 1.3})
    study = make_search(evaluator, ["Quick", "Fast", "Old"])
    study.run()
    assert study.evaluation.scoring is not None and study.evaluation.reference is not None
    old = next(scored for scored in study.evaluation.scored.values() if str(scored.candidate.pipeline) == "Old")
    for reference in (study.evaluation.reference, Reference(old.built, gain=1.3)):
        ranked = shortlist(evaluator, study.evaluation.scoring, study.evaluation.ranked(), reference=reference)
        ratios = {str(scored.candidate.pipeline): scored.ratio.value for scored in ranked if scored.ratio}
        assert ratios["Quick"] == pytest.approx(1.9, rel=0.1)


class LongBaseline(KnownCandidates):
    """Candidates of which the baseline takes long for one inference; records what was timed beside what."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.pairs: list[tuple[str, str]] = []

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return an artifact with the seconds of an inference."""
        built = super().build(state, candidate)
        assert isinstance(built, Built)
        return replace(built, run_s={"root": 25.0, "Near": 12.0, "Long": 2.0}.get(state, 0.01))

    def sample(self, reference: Built, candidate: Built) -> CandidateSamples | Failure:
        """Return samples."""
        self.pairs.append((reference.digest, candidate.digest))
        return super().sample(reference, candidate)


def test_a_baseline_of_many_seconds_runs_once_and_beside_no_candidate_that_is_far_faster() -> None:
    evaluator = LongBaseline(Machine(Noise(), 0), {"Fast": 200.0, "Faster": 300.0})
    study = make_search(evaluator, ["Fast", "Faster"])
    study.run()
    assert evaluator.pairs == [("Fast", "Fast"), ("Fast", "Faster")]
    assert study.outcome.baseline.latency_s == (25.0,) and "timed_once" in study.outcome.baseline.conditions
    fast, faster = (scored for scored in study.evaluation.scored.values() if scored.ratio and scored.ratio.value != 1.0)
    assert fast.ratio and fast.ratio.value == pytest.approx(25.0 / min(fast.latency_s))
    assert faster.ratio and faster.ratio.value / fast.ratio.value == pytest.approx(1.5, rel=0.1)


def test_a_far_faster_candidate_that_takes_seconds_as_well_can_win() -> None:
    evaluator = LongBaseline(Machine(Noise(), 0), {})
    study = make_search(evaluator, ["Long"])
    study.run()
    best, baseline = study.evaluation.ranked()
    assert (best.built.digest, best.latency_s, evaluator.pairs) == ("Long", (2.0,), [])
    assert best.ratio and best.ratio.value == 12.5 and baseline is study.outcome.baseline


def test_a_candidate_that_is_not_far_faster_than_a_slow_baseline_is_timed_beside_it() -> None:
    evaluator = LongBaseline(Machine(Noise(), 0), {"Near": 2.0})
    make_search(evaluator, ["Near"]).run()
    assert evaluator.pairs == [("root", "Near")]


class Metered(KnownCandidates):
    """Candidates on a machine with a meter; one inference of `Slow` takes far longer than the baseline's."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.batch = 32

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return an artifact with the seconds of its fastest inference."""
        built = super().build(state, candidate)
        assert isinstance(built, Built)
        return replace(built, run_s=60.0 if state == "Slow" else 0.01)

    def measure_consumption(self, *_: object, **__: object) -> Consumed:  # type: ignore[override]
        """Return that baseline and candidate take the same energy."""
        return Consumed((Consumption((1.0,), None, None),) * 2, 1.0)


@pytest.mark.parametrize("keep_throughput", [0.98, 1e-4])
def test_a_candidate_far_too_slow_to_be_timed_ends_no_search_for_energy(keep_throughput: float) -> None:
    study = make_search(Metered(Machine(Noise(), 0), {}), ["Slow", "Equal"], "energy", keep_throughput=keep_throughput)
    study.run()
    by_name = {str(scored.candidate.pipeline): scored for scored in study.evaluation.scored.values()}
    assert "not_timed" in by_name["Slow"].conditions and by_name["Slow"].batch == 32
    assert by_name["Equal"] in study.evaluation.ranked() and by_name["Slow"] not in study.evaluation.ranked()


class ShortDisk(KnownCandidates):
    """Candidates on a disk that is always short: what is not needed loses its files at once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.files: set[str] = set()
        self.most = 0

    def build(self, state: str, candidate: Candidate, *, longest_s: float = math.inf) -> Built | Failure:
        """Return an artifact with files."""
        self.files.add(state)
        self.most = max(self.most, len(self.files))
        return super().build(state, candidate)

    def make_room(self, needed: Collection[Built]) -> None:
        """Delete the files of all others."""
        self.files &= {built.state for built in needed}


def test_a_search_on_a_short_disk_keeps_what_the_shortlist_measures() -> None:
    gains = {name: 1 + number / 10 for number, name in enumerate("EHACFBDGIJ")}
    evaluator = ShortDisk(Machine(Noise(), 0), gains)
    study = make_search(evaluator, sorted(gains))
    study.run()
    assert study.evaluation.reference is not None
    kept = {str(scored.candidate.pipeline) for scored in study.evaluation.ranked()[:4]}
    # The last candidate was built after room was made for it.
    assert kept <= evaluator.files and evaluator.most <= SHORTLIST + 3 < len(gains)


@pytest.mark.parametrize(("elapsed_s", "evaluated"), [(29.0, 2), (51.0, 1), (90.0, 1), (98.0, 0)])
def test_a_slow_baseline_leaves_one_sequence_its_turn(elapsed_s: float, evaluated: int) -> None:
    study = Search(
        KnownCandidates(Machine(Noise(), 0), {"Fast": 5.0}),
        Space(load("relay"), (), frozenset()),
        options=RunOptions((parse_objective("throughput"),), 2),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline((PassSpec.of(name),))) for name in ("Fast", "Near")],
        time_limit=TimeLimit(100.0, lambda: elapsed_s),
        progress=lambda *_: None,
        end_s=lambda *_: 30.0,
    )
    study.run()
    assert study.evaluation.counts.evaluated == evaluated


@pytest.mark.parametrize(
    ("names", "gain", "has_profiler", "evaluated_first"),
    [
        (("ScheduleGPU", "Near"), 5.0, True, [1]),
        (("Near", "ScheduleGPU", "Other"), 5.0, True, [2]),
        (("ScheduleGPU", "Near"), 0.5, True, [2]),
        (("ScheduleGPU", "Near"), 5.0, False, []),
    ],
)
def test_sequences_that_schedule_no_single_kernels_wait_until_kernels_are_decided_on(
    names: Sequence[str],
    gain: float,
    has_profiler: bool,
    evaluated_first: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluated_before: list[int] = []

    class Composer:
        def __init__(self, *_: object, **__: object) -> None: ...

        def compose(self, pipeline: Pipeline) -> Failure:
            assert str(pipeline) == "ScheduleGPU"
            evaluated_before.append(search.evaluation.counts.evaluated)
            return Failure("timeout", "measure", "", "no time")

    monkeypatch.setattr(study, "Composer", Composer)
    catalog = load("relax")
    profiler: Any = object() if has_profiler else None
    search = Search(
        KnownCandidates(Machine(Noise(), 0), {"ScheduleGPU": gain}),
        Space(catalog, tuple(catalog.entries.values()), frozenset()),
        options=RunOptions((parse_objective("throughput"),), len(names)),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline((PassSpec.of(name),))) for name in names],
        progress=lambda *_: None,
        profiler=profiler,
    )
    search.run()
    assert evaluated_before == evaluated_first
    assert search.evaluation.counts.evaluated == len(names)


@pytest.mark.parametrize(("end_s", "compose_until_s"), [(40.0, 40.0), (97.0, 52.0)])
def test_a_composed_candidate_is_built_and_timed_within_the_time_limit(
    end_s: float, compose_until_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 21 s for a compile and 3 s beside, 48 s are kept unless the plan keeps more."""
    ends: list[float] = []

    class Composer:
        def __init__(self, *_: object, time_limit: TimeLimit, **__: object) -> None:
            ends.append(time_limit.limit_s)

        def compose(self, _: Pipeline) -> Failure:
            return Failure("timeout", "measure", "", "no time")

    monkeypatch.setattr(study, "Composer", Composer)
    catalog = load("relax")
    profiler: Any = object()
    search = Search(
        KnownCandidates(Machine(Noise(), 0), {"ScheduleGPU": 5.0}),
        Space(catalog, tuple(catalog.entries.values()), frozenset()),
        options=RunOptions((parse_objective("throughput"),), 1),
        baselines=[BASELINE],
        default_baseline="O3",
        first=[Candidate(Pipeline((PassSpec.of("ScheduleGPU"),)))],
        time_limit=TimeLimit(100.0, lambda: 0.0),
        progress=lambda *_: None,
        profiler=profiler,
        end_s=lambda *_: end_s,
    )
    search.run()
    assert search.evaluation.ranked()[0].compile_s == 21.0
    assert ends == [compose_until_s]


@pytest.mark.parametrize(
    ("names", "is_admissible"),
    [
        (("compile_time",), False),
        (("energy", "compile_time"), False),
        (("energy", "throughput"), True),
        (("latency",), True),
    ],
)
def test_throughput_is_a_condition_wherever_no_objective_is_speed(names: tuple[str, ...], is_admissible: bool) -> None:
    objectives = tuple(map(parse_objective, names))
    scoring = Scoring(RunOptions(objectives, 0), baseline=None)  # type: ignore[arg-type]
    slower: Any = SimpleNamespace(conditions={}, ratio=SimpleNamespace(value=0.5))
    assert scoring.is_admissible(slower) == is_admissible
