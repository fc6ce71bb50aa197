"""When a confirmation ends, on a simulated machine whose candidates, compiles and processes are known."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from time_limits import time_left

from passsearch.core import BuildOptions, Candidate, Failure, FailureKind, PassSpec, Pipeline, TimeLimit
from passsearch.dialects import dialect
from passsearch.evaluate import (
    Built,
    Consumed,
    FreshCompile,
    MeasurementPlans,
    ProcessSamples,
    TimedSamples,
    TimingRequest,
)
from passsearch.evaluate.testing import Fatigue, Machine, Noise, SimulatedEvaluator
from passsearch.measure import Consumption, mean_ratio
from passsearch.objectives import THROUGHPUT, parse_objective
from passsearch.results import RunResult, Verdict
from passsearch.search import Confirmation, Pairing, confirm
from passsearch.search.confirm import slow_baseline_processes
from passsearch.search.repetition import Repetition, summarize
from passsearch.studies.audit import _confirm_again

BASELINE = Candidate(build=BuildOptions(opt_level=3), name="O3")
FAST = Candidate(Pipeline((PassSpec.of("Fast"),)))


def built(state: str) -> Built:
    return Built(state, BuildOptions(opt_level=0), state, Path(state), state, state, 1.0, 0, 0, 0)


PAIRING = Pairing(BASELINE, FAST, built("root"), THROUGHPUT)
PLANS = MeasurementPlans()


class NoisyCompiles(SimulatedEvaluator):
    """Compiles whose times differ from one to the next; the candidate is no faster to compile than the baseline."""

    def __init__(self, machine: Machine, gains: dict[str, float], *, noise: float = 0.03, **options: Any) -> None:
        super().__init__(machine, gains, **options)
        self._machine_rng, self._compile_noise = machine.rng, noise

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Return a compile that takes about 20 s."""
        fresh = super().compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)
        assert isinstance(fresh, FreshCompile)
        return replace(fresh, build_s=20.0 * math.exp(self._machine_rng.gauss(0, self._compile_noise)))


class Metered(SimulatedEvaluator):
    """A machine with a meter, whose energies of an inference are those given, by repetition."""

    energies_j: Sequence[float] = ()

    def measure_consumption(self, key: str, *_: object, **__: object) -> Consumed:  # type: ignore[override]
        """Return that baseline and twin take 1 J."""
        candidate_j = self.energies_j[int(key.partition("-")[0])]
        artifacts = tuple(Consumption((energy_j,), None, None) for energy_j in (1.0, 1.0, candidate_j))
        return Consumed(artifacts, 1.0)


class IrreproducibleCompiles(SimulatedEvaluator):
    """Every compile of a candidate gives another binary."""

    compiles = 0

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Return a compile of the same speed and of another digest."""
        self.compiles += 1
        fresh = super().compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)
        assert isinstance(fresh, FreshCompile)
        return replace(fresh, digest=f"{fresh.digest}-{self.compiles}")


def confirmed(
    evaluator: SimulatedEvaluator,
    *,
    candidate: Candidate = FAST,
    objective: str = "throughput",
    repetitions: int = 3,
    keep_throughput: float = 0.0,
    is_about_sequence: bool = True,
    left_s: Callable[[], float] = lambda: math.inf,
    is_recorded: Callable[[str], bool] = lambda _: False,
    **pairing: Any,
) -> Confirmation:
    confirmation = confirm(
        evaluator,
        replace(PAIRING, candidate=candidate, objective=parse_objective(objective), **pairing),
        repetitions=repetitions,
        keep_throughput=keep_throughput,
        is_about_sequence=is_about_sequence,
        progress=lambda _: None,
        time_limit=time_left(left_s),
        is_recorded=is_recorded,
    )
    assert isinstance(confirmation, Confirmation)
    return confirmation


def confirmation_of(gain: float, **options: Any) -> Confirmation:
    return confirmed(SimulatedEvaluator(Machine(Noise(), 3), {"Fast": gain}), **options)


@pytest.mark.parametrize(("kind", "reproducible"), [(SimulatedEvaluator, True), (IrreproducibleCompiles, False)])
def test_compiles_that_differ_are_the_repetitions(kind: type[SimulatedEvaluator], reproducible: bool) -> None:
    confirmation = confirmed(kind(Machine(Noise(), 1), {"Fast": 1.1}), repetitions=4)
    assert confirmation.throughput is not None
    assert confirmation.reproducible is reproducible and not confirmation.same_binary
    assert confirmation.throughput.interval.low < 1.1 < confirmation.throughput.interval.high
    assert confirmation.throughput_of_medians is not None
    widths = [
        each.interval.high - each.interval.low for each in (confirmation.throughput, confirmation.throughput_of_medians)
    ]
    # Both are intervals over the same repetitions, at the same level.
    assert 1 / 10 < widths[1] / widths[0] < 10


class FailingCompile(SimulatedEvaluator):
    """A machine on which one repetition meets a full disk."""

    def __init__(self, *arguments: Any, turn: int, kind: FailureKind = "infra") -> None:
        super().__init__(*arguments)
        self.turn, self.kind = turn, kind

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Return a compile, or that the disk is full."""
        if key.startswith(f"fresh-{self.turn}-"):
            return Failure(self.kind, "build", "", "the disk is full")
        return super().compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)


def test_an_accident_of_the_machine_ends_the_repetitions_and_keeps_the_earlier_ones() -> None:
    machine = Machine(Noise(), 3)
    assert confirmed(FailingCompile(machine, {"Fast": 1.1}, turn=2)).repetitions == 2

    def reason(kind: FailureKind, turn: int = 1) -> str:
        evaluator = FailingCompile(machine, {"Fast": 1.1}, turn=turn, kind=kind)
        failure = confirm(evaluator, PAIRING, repetitions=3, progress=lambda _: None)
        assert isinstance(failure, Failure)
        return failure.reason

    assert reason("infra") == "the disk is full; the same command continues"
    assert reason("crash") == "the disk is full", "which would come again"
    assert reason("unstable", turn=2) == "the disk is full", "a compile that reaches another IR is no accident"


def test_a_large_gain_is_confirmed_in_the_fewest_repetitions_and_a_small_one_takes_more() -> None:
    assert confirmation_of(100.0).repetitions == 3
    small = confirmation_of(1.018)
    assert 3 < small.repetitions <= PLANS.most_repetitions
    assert small.improves(THROUGHPUT, keep_throughput=0.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_faster_winner_that_compiles_about_as_fast_takes_the_fewest_repetitions(seed: int) -> None:
    confirmation = confirmed(NoisyCompiles(Machine(Noise(), seed), {"Fast": 100.0}, noise=0.05))
    assert confirmation.repetitions == 3 and confirmation.improves(THROUGHPUT, keep_throughput=0.0)


def test_for_compile_time_it_must_be_clear_which_of_two_compiles_faster() -> None:
    noisy = [confirmed(NoisyCompiles(Machine(Noise(), seed), {}), objective="compile_time") for seed in range(5)]
    assert max(confirmation.repetitions for confirmation in noisy) == PLANS.most_repetitions
    quiet = NoisyCompiles(Machine(Noise(), 0), {}, noise=0.001)
    assert confirmed(quiet, objective="compile_time").repetitions == 3


def test_what_is_certainly_no_better_is_given_up_after_the_fewest_repetitions() -> None:
    confirmation = confirmation_of(0.9)
    assert confirmation.repetitions == 3 and not confirmation.improves(THROUGHPUT, keep_throughput=0.0)


def test_energy_is_judged_at_the_level_of_all_looks() -> None:
    evaluator = Metered(Machine(Noise(), 3), {"Fast": 1.1})
    # At 95 % three repetitions would say that this is a gain; a confirmation looks up to seven times.
    evaluator.energies_j = (0.95, 0.92, 0.90, *[0.93, 0.91, 0.92] * 2)
    assert mean_ratio([-math.log(energy_j) for energy_j in evaluator.energies_j[:3]]).interval.low > 1.01
    confirmation = confirmed(evaluator, objective="energy")
    assert confirmation.repetitions > 3 and confirmation.improves(parse_objective("energy"), keep_throughput=0.98)


@pytest.mark.parametrize(("gain", "sequence"), [(100.0, 80.0), (100.0, 99.9), (1.5, 1.2)])
def test_the_gain_over_a_sequence_is_timed_beside_the_gain_over_the_baseline(gain: float, sequence: float) -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {str(FAST.pipeline): gain, "Sequence": sequence})
    confirmation = confirmed(evaluator, sequence=built("Sequence"))
    timed = confirmation.over_sequence
    assert timed is not None
    for expected, ratio in ((gain / sequence, timed.gain), (sequence, timed.throughput)):
        assert ratio.interval.low < expected < ratio.interval.high and ratio.value == pytest.approx(expected, rel=0.02)
    assert confirmation.improves_on_sequence() == (gain / sequence > 1.1)
    assert len(timed.latency_s) == confirmation.processes


class TimedLog(SimulatedEvaluator):
    """A machine that remembers what it timed."""

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts, and remember their names by role."""
        timed = super().time_fresh(request)
        assert isinstance(timed, TimedSamples)
        self.folders = [*getattr(self, "folders", []), ([*map(str, request.artifacts.folders)], len(timed.processes))]
        return timed


@pytest.mark.parametrize("number", [1, 2])
def test_beside_a_far_slower_baseline_the_others_have_processes_of_their_own(number: int) -> None:
    gains = {str(FAST.pipeline): 100.0, "Sequence": 80.0}
    evaluator = TimedLog(Machine(Noise(), 3), gains)
    options: dict[str, Any] = {"sequence": built("Sequence"), "twin": built("Fast"), "slow_processes": number}
    confirmation = confirmed(evaluator, **options)
    sustained, others, together = evaluator.folders[:3]
    assert sustained == (["Fast"], 1), "a slow baseline runs for seconds anyway"
    assert together == (["root", "Fast", "Sequence"], number)
    assert others[0] == ["Fast", "Fast", "Sequence"] and others[1] >= PLANS.least_processes
    assert len(confirmation.baseline_latency_s) == confirmation.repetitions * number
    assert confirmation.processes == len(confirmation.baseline_latency_s)
    assert len(confirmation.latency_s) == sum(number for names, number in evaluator.folders[1:] if "root" not in names)
    assert confirmation.improves(THROUGHPUT, keep_throughput=0.0) and confirmation.improves_on_sequence()
    assert 0 < THROUGHPUT.floor(confirmation) < 0.05


@pytest.mark.parametrize(
    ("objective", "throughput", "latency_s", "expected"),
    [
        ("throughput", 400.0, 47.0, 1),  # a second process would take a minute of the run
        ("throughput", 3.0, 47.0, 2),
        ("throughput", 100.0, 1.9, 2),
        ("throughput", 100.0, 0.6, 2),  # it and its twin take more than a second of each round
        ("throughput", 6.5, 0.005, 0),  # ResNet-50 on a GPU: the rounds of a race with it take a second together
        ("throughput", 1.5, 1.9, 0),
        ("throughput", None, 1.9, 0),
        *((objective, 100.0, 1.9, 0) for objective in ("energy", "compile_time", "memory")),
    ],
)
def test_a_slow_baseline_is_far_slower_and_leaves_a_race_no_time_for_its_rounds(
    objective: str, throughput: float | None, latency_s: float, expected: int
) -> None:
    assert slow_baseline_processes(parse_objective(objective), throughput, latency_s=latency_s, plans=PLANS) == expected


def test_one_binary_with_the_baseline_gains_nothing_over_a_sequence() -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Sequence": 0.9})
    confirmation = confirmed(evaluator, candidate=BASELINE, sequence=built("Sequence"))
    assert confirmation.same_binary and not confirmation.improves_on_sequence() and confirmation.repetitions == 3


class Recording(SimulatedEvaluator):
    """A machine that answers a request for known samples from its record, as a continued run does."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.record: dict[str, tuple[list[str], TimedSamples]] = {}

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts, or return what was timed under this key; the roles must be the same."""
        folders = request.artifacts.folders
        if request.key not in self.record:
            timed = super().time_fresh(request)
            assert isinstance(timed, TimedSamples)
            self.record[request.key] = folders, timed
        assert self.record[request.key][0] == folders
        return self.record[request.key][1]


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_continued_run_reads_the_samples_it_recorded(is_slow: bool) -> None:
    evaluator = Recording(Machine(Noise(), 3), {str(FAST.pipeline): 100.0, "Sequence": 80.0})
    options: dict[str, Any] = {"sequence": built("Sequence"), "slow_processes": 2 * is_slow}
    first = confirmed(evaluator, **options)
    requests = len(evaluator.record)
    again = confirmed(evaluator, **options)
    sustained = 1
    expected = sustained + first.repetitions * (2 if is_slow else 1)
    assert requests == len(evaluator.record) == expected, "every request has its key"
    assert (first.throughput, first.twin, first.over_sequence) == (again.throughput, again.twin, again.over_sequence)


def samples(*seconds: float, scale: float, has_baseline: bool = True) -> ProcessSamples:
    baseline, twin, winner, sequence = ((scale * value,) for value in seconds)
    return ProcessSamples(baseline if has_baseline else (), twin, (winner, sequence), {})


def test_the_cases_of_a_network_with_a_slow_baseline_have_the_winners_own_processes() -> None:
    def timed(*, has_baseline: bool) -> TimedSamples:
        seconds = (1.0, 0.01, 0.01, 0.02) if has_baseline else (0.0, 0.008, 0.008, 0.016)
        cases = tuple(samples(*seconds, scale=scale, has_baseline=has_baseline) for scale in (1.0, 10.0))
        mean = replace(samples(*seconds, scale=5.5, has_baseline=has_baseline), cases=cases)
        return TimedSamples((mean, mean), 1.0)

    baseline, candidate = (FreshCompile(Path(name), name, 0.0, 1.0, 1.0) for name in ("baseline", "best"))
    others = timed(has_baseline=False)
    repetition = Repetition(baseline, candidate, None, timed(has_baseline=True), others, None)
    pairing = replace(PAIRING, slow_processes=2, sequence=built("Sequence"))
    confirmation = summarize(pairing, [repetition] * 2, level=0.95)
    for case, scale in zip(confirmation.cases, (1.0, 10.0), strict=True):
        assert case.throughput.value == pytest.approx(100), "of one process, in which both ran"
        assert case.latency_s == ((scale * 0.008,),) * 4 and case.baseline_latency_s == ((scale,),) * 4
    assert confirmation.over_sequence is not None and confirmation.over_sequence.gain.value == pytest.approx(2)
    assert confirmation.latency_s == ((5.5 * 0.008,),) * 4 and confirmation.processes == 4
    # Beside an inference of many seconds the winner has a single short run.
    apart = summarize(pairing, [replace(repetition, is_apart=True)] * 2, level=0.95)
    assert apart.throughput is not None and apart.throughput.value == pytest.approx(125)
    assert [case.throughput.value for case in apart.cases] == pytest.approx([125, 125])
    assert apart.over_sequence is not None and apart.over_sequence.throughput.value == pytest.approx(62.5)
    assert (apart.twin, apart.over_sequence.gain) == (confirmation.twin, confirmation.over_sequence.gain)


class NoRoomForFour(SimulatedEvaluator):
    """A machine whose memory holds three artifacts."""

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time up to three artifacts."""
        if len(request.artifacts.folders) > 3:
            return Failure("oom", "measure", "", "out of memory")
        return super().time_fresh(request)


def test_a_sequence_that_fails_costs_no_verdict() -> None:
    evaluator = NoRoomForFour(Machine(Noise(), 3), {str(FAST.pipeline): 1.5, "Sequence": 1.2})
    confirmation = confirmed(evaluator, sequence=built("Sequence"))
    assert confirmation.over_sequence is None and confirmation.improves(THROUGHPUT, keep_throughput=0.0)


class LostLater(SimulatedEvaluator):
    """A machine that loses the sequence's files after two repetitions."""

    def time_fresh(self, request: TimingRequest) -> TimedSamples | Failure:
        """Time artifacts while they exist."""
        if request.key.startswith("2-") and "Sequence" in map(str, request.artifacts.candidates):
            return Failure("infra", "measure", "", "a file is gone")
        return super().time_fresh(request)


@pytest.mark.parametrize("is_slow", [False, True])
def test_what_was_timed_beside_a_sequence_stays_when_it_fails_later(is_slow: bool) -> None:
    evaluator = LostLater(Machine(Noise(), 3), {str(FAST.pipeline): 3.0, "Sequence": 1.2})
    options: dict[str, Any] = {"slow_processes": 2, "twin": built("Fast")} if is_slow else {}
    confirmation = confirmed(evaluator, sequence=built("Sequence"), **options)
    assert confirmation.repetitions == 3 and confirmation.improves_on_sequence()
    assert confirmation.over_sequence is not None
    assert 0 < len(confirmation.over_sequence.latency_s) < len(confirmation.latency_s)


def test_a_gain_over_a_sequence_that_is_slower_than_the_baseline_is_none() -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Sequence": 0.8})
    confirmation = confirmed(evaluator, sequence=built("Sequence"))
    assert not confirmation.same_binary and confirmation.over_sequence is not None
    assert confirmation.over_sequence.gain.interval.low > 1.1 and not confirmation.improves_on_sequence()


def test_repetitions_go_on_while_the_gain_over_a_sequence_is_in_doubt() -> None:
    def confirmation_of(sequence: float, *, is_about_sequence: bool = True) -> Confirmation:
        noise = Noise(process=0.02)
        evaluator = SimulatedEvaluator(Machine(noise, 3), {str(FAST.pipeline): 100.0, "Sequence": sequence})
        pairing: Any = {"sequence": built("Sequence"), "twin": built("Fast"), "slow_processes": 2}
        return confirmed(evaluator, is_about_sequence=is_about_sequence, **pairing)

    clear, doubtful, none = map(confirmation_of, (50.0, 98.0, 110.0))
    assert clear.repetitions == none.repetitions == 3 and clear.improves_on_sequence()
    assert doubtful.repetitions > 3
    assert confirmation_of(98.0, is_about_sequence=False).repetitions == 3


def test_repetitions_end_when_a_quicker_compile_certainly_costs_too_much_throughput() -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Fast": 0.9}, compile_gains={"Fast": 2.0})
    confirmation = confirmed(evaluator, objective="compile_time", keep_throughput=0.98)
    assert confirmation.repetitions == 3
    assert not confirmation.improves(parse_objective("compile_time"), keep_throughput=0.98)


RESULT = Path(__file__).parents[1] / "report" / "data" / "result.json"


class Audited(SimulatedEvaluator):
    """An evaluator as an audit opens one."""

    session = SimpleNamespace(dialect=dialect("relay"))


@pytest.mark.parametrize("seed", [3, 5, 6])
def test_an_audit_of_a_win_in_compile_time_goes_on_until_throughput_is_certain(seed: int) -> None:
    evaluator = Audited(Machine(Noise(process=0.01, compile=0.01), seed), {}, compile_gains={"Fast": 2.0})
    claim = Verdict(objective="compile_time", keep_throughput=0.98)
    recorded = RunResult.from_json(json.loads(RESULT.read_text()))
    result = replace(recorded, verdict=claim, ratios=None, baseline=replace(recorded.baseline, latency_s=None))
    confirmation = _confirm_again(
        evaluator,  # type: ignore[arg-type]
        FAST,
        result=result,
        sequence=None,
        repetitions=2,
        progress=lambda _: None,
    )
    assert isinstance(confirmation, Confirmation)
    assert confirmation.improves(parse_objective("compile_time"), keep_throughput=0.98)


def noisy_equals(seed: int, **plans: Any) -> Confirmation:
    machine = Machine(Noise(process=0.008), seed)
    # Few processes a compile, as on a network that is slow to run.
    options = replace(PLANS, most_processes=4, **plans)
    return confirmed(SimulatedEvaluator(machine, {"Fast": 1.0}, plans=options))


def test_processes_are_added_until_the_floor_would_not_hide_a_gain() -> None:
    equals = [noisy_equals(seed) for seed in range(10)]
    assert not any(each.improves(THROUGHPUT, keep_throughput=0.0) for each in equals)
    hidden = [each for each in equals if each.throughput and each.throughput.interval.high > 1.01]
    assert all(THROUGHPUT.floor(each) < 0.01 or each.repetitions == PLANS.most_repetitions for each in hidden)
    assert max(each.repetitions for each in equals) > 3


def test_a_floor_that_stays_large_ends_with_the_most_repetitions() -> None:
    equals = [noisy_equals(seed, most_repetitions=4, least_floor=0.0001) for seed in range(5)]
    assert max(each.repetitions for each in equals) == 4


def test_a_confirmation_ends_with_the_time_limit_but_has_an_interval() -> None:
    confirmation = confirmation_of(1.02, left_s=lambda: -1.0)
    assert confirmation.repetitions == 2 and math.isfinite(confirmation.compile_time.interval.high)


def test_further_repetitions_leave_the_time_that_is_kept_for_what_follows() -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Fast": 1.02})
    limit, confirmations = time_left(lambda: 500.0), []
    for kept_s in (0.0, 499.0):
        options: Any = {"repetitions": 3, "progress": lambda _: None, "time_limit": limit, "kept_s": kept_s}
        confirmations.append(confirm(evaluator, PAIRING, **options))
    usual, short = (each.repetitions for each in confirmations if isinstance(each, Confirmation))
    assert usual > short == 2, "two are made in any case"


def test_repetitions_of_an_earlier_start_count_though_no_time_is_left() -> None:
    turns = [PAIRING.timing_key(turn) for turn in range(3)]
    assert confirmation_of(1.02, left_s=lambda: -1.0, is_recorded=turns.__contains__).repetitions == 3


class OtherLater(SimulatedEvaluator):
    """A machine on which the fourth compile of the candidate gives another binary."""

    def compile_fresh(
        self, key: str, candidate: Candidate, *, timing_key: str, kinds: Sequence[str]
    ) -> FreshCompile | Failure:
        """Return a compile."""
        fresh = super().compile_fresh(key, candidate, timing_key=timing_key, kinds=kinds)
        assert isinstance(fresh, FreshCompile)
        return replace(fresh, digest="another") if key.startswith("fresh-3-") and key.endswith("-best") else fresh


@pytest.mark.parametrize("kind", ["unstable", "crash", "infra"])
def test_a_compile_that_was_not_timed_and_fails_counts_unless_the_machine_is_to_blame(kind: FailureKind) -> None:
    evaluator = FailingCompile(Machine(Noise(), 3), {"Fast": 2.0}, turn=3, kind=kind)
    outcome = confirm(evaluator, PAIRING, repetitions=2, progress=lambda _: None)
    assert isinstance(outcome, Failure) == (kind != "infra")


def test_a_compile_that_was_not_timed_counts_for_reproducibility() -> None:
    confirmation = confirmed(OtherLater(Machine(Noise(), 3), {"Fast": 2.0}), repetitions=2)
    assert confirmation.repetitions < 4 == len(confirmation.compile_s) and not confirmation.reproducible


def test_one_binary_is_timed_in_the_fewest_processes() -> None:
    same = confirmed(SimulatedEvaluator(Machine(Noise(), 3), {}), candidate=BASELINE)
    assert same.same_binary and same.processes == same.repetitions * PLANS.least_processes
    other = confirmation_of(100.0)
    assert other.repetitions == same.repetitions and other.processes > same.processes


def test_the_repetitions_that_are_always_made_share_a_short_time_limit() -> None:
    # Without a limit, one repetition times for as long as its compiles take, 20 s at least.
    short = confirmation_of(100.0, left_s=lambda: 40.0)
    usual = confirmation_of(100.0)
    assert short.processes / short.repetitions < usual.processes / usual.repetitions


def test_compiles_are_added_until_the_compile_time_says_something() -> None:
    confirmation = confirmation_of(2.0, repetitions=2)
    assert confirmation.repetitions == 2 and len(confirmation.compile_s) == len(confirmation.baseline_compile_s) == 4
    assert len(confirmation_of(2.0, repetitions=2, left_s=lambda: -1.0).compile_s) == 2
    by_compile_time = confirmation_of(2.0, repetitions=2, objective="compile_time")
    assert len(by_compile_time.compile_s) == by_compile_time.repetitions


@pytest.mark.parametrize(("calls", "seed"), [(400, 3), (400, 4), (1200, 3)])
def test_a_kernel_that_is_fast_in_its_first_calls_only_is_no_win(calls: int, seed: int) -> None:
    # 22 times as fast in its first calls, half as fast as the baseline in all others.
    evaluator = SimulatedEvaluator(
        Machine(Noise(), seed), {"Fast": 22.0}, latency_s=0.02, fatigue={"Fast": Fatigue(calls, 44.0)}
    )
    confirmation = confirmed(evaluator)
    assert confirmation.throughput is not None and confirmation.throughput.value > 2
    assert not confirmation.improves(THROUGHPUT, keep_throughput=0.0)
    assert "times" in confirmation.disagreement(THROUGHPUT)
    assert not confirmed(evaluator, objective="compile_time", keep_throughput=0.98).keeps(
        parse_objective("compile_time"), 0.98
    )


def test_a_kernel_that_tires_after_the_rounds_is_seen_by_a_run_of_some_seconds() -> None:
    fatigue = {"Fast": Fatigue(1500, 10.0)}
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Fast": 2.0}, latency_s=0.002, fatigue=fatigue)
    confirmation = confirmed(evaluator)
    assert confirmation.throughput_of_medians is not None and confirmation.throughput_of_medians.value > 1.5
    assert confirmation.sustained is not None and confirmation.sustained < 0.5
    assert "without a pause" in confirmation.disagreement(THROUGHPUT)
    assert not confirmation.improves(THROUGHPUT, keep_throughput=0.0)


HEAVY = Noise(run=0.2, burst=2.0, burst_every_s=3.0, burst_s=2.0, process=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_an_effect_far_beyond_the_noise_needs_no_floor(seed: int) -> None:
    evaluator = SimulatedEvaluator(Machine(HEAVY, seed), {"Fast": 400.0}, latency_s=1.3)
    # Two repetitions of one process each, as on a busy machine with little time.
    confirmation = confirmed(evaluator, repetitions=2, left_s=lambda: 1.0)
    assert confirmation.improves(THROUGHPUT, keep_throughput=0.0)


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_effect_far_beyond_it(seed: int) -> None:
    evaluator = SimulatedEvaluator(Machine(HEAVY, seed), {}, latency_s=0.3)
    confirmation = confirmed(evaluator, repetitions=2, left_s=lambda: 1.0)
    assert not confirmation.improves(THROUGHPUT, keep_throughput=0.0)


def test_two_repetitions_that_are_all_the_time_there_is_have_the_level_of_one_look() -> None:
    short, usual = (confirmation_of(1.3, repetitions=2, left_s=lambda left_s=left_s: left_s) for left_s in (1.0, 1e4))
    assert short.level == 0.95 < usual.level


def test_one_repetition_without_time_for_another_is_no_confirmation() -> None:
    evaluator = SimulatedEvaluator(Machine(Noise(), 3), {"Fast": 2.0})
    outcome = confirm(
        evaluator, PAIRING, repetitions=2, progress=lambda _: None, time_limit=TimeLimit(60.0, lambda: 55.0)
    )
    assert isinstance(outcome, Failure) and outcome.kind == "timeout" and "more time" in outcome.reason


def test_the_number_of_compiles_is_said_as_the_time_allows_it() -> None:
    steps, evaluator = list[str](), SimulatedEvaluator(Machine(Noise(), 3), {"Fast": 1.1})
    confirm(evaluator, PAIRING, repetitions=3, progress=steps.append, time_limit=time_left(lambda: 1.0))
    assert [step for step in steps if "fresh" in step] == [
        f"confirming: fresh compile 1 of 3 to {PLANS.most_repetitions}",
        "confirming: fresh compile 2 of 2",
    ]
