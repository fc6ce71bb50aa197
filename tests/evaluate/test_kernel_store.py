"""Kernels of a real network are listed, timed alone, and remembered for every network that has them."""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import short_plans
from filelock import FileLock
from short_plans import SHORT

import passsearch
from passsearch.core import BuildOptions, Candidate, Failure, FailureKind, PassSpec, Pipeline, SameBits
from passsearch.dialects.contract import Kernel
from passsearch.evaluate import Built, MeasurementPlans, NetworkKernels, WorkerEvaluator, open_session
from passsearch.evaluate.kernel_store import KernelStore
from passsearch.evaluate.session import Session
from passsearch.frontends import resolve
from passsearch.store import Fact, Log
from passsearch.toolchain import Toolchain

DATA = Path(__file__).parents[1] / "data"
BEFORE = 'FoldBatchnormToConv2D,DecomposeOpsForInference,FoldConstant{evaluator="numpy"},ConvertLayout'
LOOPS = 'FoldConstant{evaluator="numpy"},LegalizeOps,AnnotateTIROpPattern,FuseOps{fuse_opt_level=2},FuseTIR'
SCHEDULES = [
    PassSpec.of("ScheduleCPU"),
    PassSpec.of("ScheduleCPU", rows=4),
    PassSpec.of("ScheduleCPU", rows=4, pack=True),
]


def kernels_of(evaluator: WorkerEvaluator, pipeline: str) -> NetworkKernels:
    state = evaluator.reach(Pipeline.parse(pipeline))
    assert isinstance(state, str)
    network = evaluator.kernels(state)
    assert not isinstance(network, Failure)
    return network


@pytest.fixture(scope="module")
def resnet(relax: Toolchain) -> Iterator[WorkerEvaluator]:
    """An open session, which tests that only ask for facts share."""
    with passsearch.session("zoo:resnet_tiny", toolchain=relax.name) as evaluator:
        yield evaluator


def test_kernels_are_listed_and_timed_alone(resnet: WorkerEvaluator) -> None:
    network = kernels_of(resnet, f"{BEFORE},{LOOPS}")
    assert sum(kernel.calls for kernel in network.kernels) > len(network.kernels)  # repeated blocks share kernels
    convolution = max(network.kernels, key=lambda kernel: kernel.operations)
    times = resnet.variants(network, convolution, SCHEDULES)
    assert set(times) == set(SCHEDULES)
    assert all(0 < seconds < 1 for seconds in times.values())
    assert times[SCHEDULES[1]] == times[SCHEDULES[2]]  # one schedule by two names is timed once


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileLock:
    """Return the lock of a device that two processes share, as they share a GPU."""
    monkeypatch.setattr(Session, "device_lock", tmp_path / "gpu.lock")
    monkeypatch.setattr(Session, "explorers", 2)
    return FileLock(tmp_path / "gpu.lock")


def test_kernels_are_timed_by_processes_side_by_side_that_take_turns_on_a_gpu(
    relax: Toolchain, lock: FileLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _workers()
    with passsearch.session("zoo:resnet_tiny", toolchain=relax.name, remember=False) as evaluator:
        network = kernels_of(evaluator, f"{BEFORE},{LOOPS}")
        kernels, asked = network.kernels[:4], Mock(side_effect=AssertionError("timed again"))
        with ThreadPoolExecutor(1) as pool:
            with lock:  # another search
                timing = pool.submit(evaluator.time_ahead, network, kernels, SCHEDULES)
                _wait_until(lambda: len(_workers() - before) == 4)
                with pytest.raises(TimeoutError):
                    timing.result(4)
            assert timing.result(120)
        started = _workers() - before
        assert len(started) == 4, "the compiler, the first timer, and two beside each other"
        monkeypatch.setattr(KernelStore, "_time", asked)
        assert all(set(evaluator.variants(network, kernel, SCHEDULES)) == set(SCHEDULES) for kernel in kernels)
        assert evaluator.time_ahead(network, kernels, SCHEDULES), "nothing is missing"
        evaluator.stop_time_ahead()
        assert len(_workers() & started) == 2


@pytest.mark.slow
def test_timing_ahead_ends_when_the_search_is_interrupted(relax: Toolchain, lock: FileLock) -> None:
    before = _workers()
    with passsearch.session("zoo:resnet_tiny", toolchain=relax.name, remember=False) as evaluator:
        network = kernels_of(evaluator, f"{BEFORE},{LOOPS}")
        with lock, ThreadPoolExecutor(1) as pool:
            timing = pool.submit(evaluator.time_ahead, network, network.kernels, SCHEDULES)
            _wait_until(lambda: len(_workers() - before) == 4)
            evaluator.stop_time_ahead()  # they wait for the device, which never becomes free
            with pytest.raises(CancelledError):  # of what had not begun
                timing.result(60)
            assert len(_workers() - before) == 2


def _wait_until(holds: Callable[[], bool], *, most_s: float = 120.0) -> None:
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < most_s
        time.sleep(0.2)


def _workers() -> set[int]:
    """Return the processes that this one has started."""
    return {child.pid for child in psutil.Process().children()}


@pytest.mark.slow
def test_every_run_of_a_kernel_and_the_time_of_its_build_are_kept(relax: Toolchain, tmp_path: Path) -> None:
    options = {"toolchain": relax.name, "folder": tmp_path / "own", "remember": False}
    with passsearch.session("zoo:resnet_tiny", **options) as evaluator:
        network = kernels_of(evaluator, f"{BEFORE},{LOOPS}")
        ((_, seconds),) = evaluator.variants(network, network.kernels[0], SCHEDULES[:1]).items()
    with Log(tmp_path / "own" / "log.jsonl", writable=False) as log:
        (key,) = [key for kind, key in log.times if kind == "variant"]
        fact = log.recall("variant", key)
    assert fact
    assert len(fact["samples_s"]) > 1 and fact["build_s"] > 0
    assert fact["seconds"] == seconds == pytest.approx(min(fact["samples_s"]), rel=1e-3)


def test_times_by_unusual_plans_are_other_facts(relax: Toolchain, tmp_path: Path) -> None:
    network = resolve("zoo:resnet_tiny", folder=tmp_path)

    def key(plans: MeasurementPlans | None) -> str:
        session = open_session(network, toolchain=relax.name, target=None, plans=plans)
        return session.plans_key("variants", "kernel_limit")

    assert key(None) == key(MeasurementPlans()) == ""
    assert key(SHORT) != key(replace(SHORT, kernel_limit=1.0)) != ""


class CrashingPool:
    """Fails with one kind of failure where one of some schedules is asked for, and notes all requests."""

    timer = None

    def __init__(self, kind: FailureKind, *bad: str) -> None:
        self.kind, self.bad, self.asked = kind, bad, list[list[str]]()

    def ask(self, worker: object, stage: str, *, request: dict[str, Any], extra_s: float) -> Fact:
        self.asked.append(request["steps"])
        if {*request["steps"]} & {*self.bad}:
            return {"failure": Failure(self.kind, "measure", "", "no answer").to_json()}
        return {"variants": [{"seconds": 1.0} for _ in request["steps"]]}


OWN, *OTHERS = map(str, SCHEDULES)


@pytest.mark.parametrize(
    ("kind", "bad", "requests", "kinds"),
    [
        ("timeout", OTHERS[0], [], ["timeout", "timeout", "timeout"]),
        ("crash", OTHERS[0], [[OWN], [OWN, OTHERS[0]], [OWN, OTHERS[1]]], [None, "crash", None]),
        ("crash", OWN, [[OWN]], ["crash", "infra", "infra"]),
    ],
)
def test_a_crash_is_that_of_the_schedule_that_crashes(
    kind: FailureKind, bad: str, requests: list[list[str]], kinds: list[str | None]
) -> None:
    pool, recorded = CrashingPool(kind, bad), list[Fact]()
    kernel = Kernel("k", "digest", 1, 1000, 10, has_constants=False)
    applier = SimpleNamespace(compiler=SimpleNamespace(step_request=str))

    def record(*_: object, fact: Fact) -> Fact:
        recorded.append(fact)
        return fact

    facts: Any = SimpleNamespace(recall=lambda *_: None, record=record)
    session = SimpleNamespace(device="cpu", device_lock=None, plans=SHORT, plans_key=lambda *_: "", same_bits=None)
    store = KernelStore(session, pool=pool, applier=applier, facts=facts, shared=facts)  # type: ignore[arg-type]
    outcome = store.variants(NetworkKernels("state", (kernel,), 0), kernel, SCHEDULES)
    assert (outcome.kind if isinstance(outcome, Failure) else None) == (kinds[0] if all(kinds) else None)
    assert pool.asked == [[OWN, *OTHERS], *requests]
    assert [fact.get("failure", {}).get("kind") for fact in recorded] == kinds


@pytest.mark.parametrize(
    ("megabytes", "cache_megabytes", "has_constants", "expected"),
    [(100, 256, True, 128), (200, 240, True, 240), (300, 240, True, 480), (434, 260, True, 512), (100, 256, False, 0)],
    ids=["a power of two", "fits the cache", "exceeds the cache", "within two caches", "no constants"],
)
def test_a_kernel_alone_reads_its_constants_from_as_much_memory_as_the_network_has(
    monkeypatch: pytest.MonkeyPatch, megabytes: int, cache_megabytes: int, has_constants: bool, expected: int
) -> None:
    monkeypatch.setattr("passsearch.evaluate.kernel_store.cache_bytes", lambda: cache_megabytes << 20)
    pool = Mock(ask=Mock(return_value={"variants": [{"seconds": 1.0}]}))
    facts: Any = SimpleNamespace(recall=lambda *_: None, record=lambda *_, fact: fact)
    applier = SimpleNamespace(compiler=SimpleNamespace(step_request=str))
    session = SimpleNamespace(device="cpu", device_lock=None, plans=SHORT, plans_key=lambda *_: "", same_bits=None)
    store = KernelStore(session, pool=pool, applier=applier, facts=facts, shared=facts)  # type: ignore[arg-type]
    kernel = Kernel("k", "digest", 1, 1000, 10, has_constants)
    store.variants(NetworkKernels("state", (kernel,), megabytes << 20), kernel, SCHEDULES[:1])
    assert pool.ask.call_args.kwargs["request"]["cold_bytes"] == expected << 20


class DriftingPool:
    """Answers the schedules of a request with 1, 2, … seconds, all twice as slow as in the request before."""

    timer, slowness = None, 0.5

    def ask(self, worker: object, stage: str, *, request: dict[str, Any], extra_s: float) -> Fact:
        self.slowness *= 2
        return {"variants": [{"seconds": self.slowness * (1 + place)} for place, _ in enumerate(request["steps"])]}


def test_schedules_of_different_requests_are_compared_by_what_the_first_one_took_beside_them() -> None:
    recorded: dict[str, Fact] = {}
    facts: Any = SimpleNamespace(
        recall=lambda _, key: recorded.get(key), record=lambda _, key, fact: recorded.setdefault(key, fact)
    )
    pool, kernel = DriftingPool(), Kernel("k", "digest", 1, 1000, 10, False)
    applier = SimpleNamespace(compiler=SimpleNamespace(step_request=str))
    session = SimpleNamespace(device="cpu", device_lock=None, plans=SHORT, plans_key=lambda *_: "", same_bits=None)
    store = KernelStore(session, pool=pool, applier=applier, facts=facts, shared=facts)  # type: ignore[arg-type]
    network = NetworkKernels("state", (kernel,), 0)
    assert store.variants(network, kernel, SCHEDULES[:1]) == {SCHEDULES[0]: 1.0}
    assert store.variants(network, kernel, SCHEDULES[:2]) == {SCHEDULES[0]: 1.0, SCHEDULES[1]: 2.0}
    assert store.variants(network, kernel, SCHEDULES) == dict(zip(SCHEDULES, (1.0, 2.0, 2.0), strict=True))
    # Beside another one, its own time counts.
    assert store.variants(network, kernel, SCHEDULES[1:]) == {SCHEDULES[1]: 4.0, SCHEDULES[2]: 8.0}


def test_a_search_that_keeps_bits_has_no_schedules_with_others_and_none_whose_bits_are_unknown() -> None:
    recorded: dict[str, Fact] = {}
    facts: Any = SimpleNamespace(
        recall=lambda _, key: recorded.get(key), record=lambda _, key, fact: recorded.update({key: fact}) or fact
    )
    pool, kernel = Mock(), Kernel("k", "digest", 1, 1000, 10, False)
    applier = SimpleNamespace(compiler=SimpleNamespace(step_request=str))
    session = SimpleNamespace(device="cpu", device_lock=None, plans=SHORT, plans_key=lambda *_: "", same_bits=None)
    store = KernelStore(session, pool=pool, applier=applier, facts=facts, shared=facts)  # type: ignore[arg-type]
    network = NetworkKernels("state", (kernel,), 0)
    pool.ask.return_value = {"variants": [{"seconds": 1.0}] * 3}  # as an earlier version answers
    assert set(store.variants(network, kernel, SCHEDULES)) == set(SCHEDULES)
    session.same_bits = SameBits("recommended", None)
    pool.ask.return_value = {"variants": [{"seconds": 1.0, "bits": bits} for bits in "aba"]}
    assert set(store.variants(network, kernel, SCHEDULES)) == {SCHEDULES[0], SCHEDULES[2]}
    assert set(store.variants(network, kernel, SCHEDULES)) == {SCHEDULES[0], SCHEDULES[2]}
    assert pool.ask.call_count == 2
    recorded[next(key for key in recorded if key.endswith(f"|{SCHEDULES[0]}"))] = {"reason": "refused"}
    outcome = store.variants(network, kernel, SCHEDULES)
    assert isinstance(outcome, Failure) and outcome.reason == "refused", "there are no bits to keep"


def test_all_kernels_of_a_network_are_timed_in_their_places(relax: Toolchain) -> None:
    with passsearch.session("zoo:resnet_tiny", toolchain=relax.name, plans=SHORT) as evaluator:
        names = {kernel.name for kernel in kernels_of(evaluator, f"{BEFORE},{LOOPS}").kernels}
        pipeline = Pipeline.parse(f"{BEFORE},{LOOPS},ScheduleCPU,StaticPlanBlockMemory")
        candidate = Candidate(pipeline, BuildOptions(opt_level=0))
        (times,) = evaluator.in_places([candidate])
        built = evaluator.build_candidate(candidate)
        assert isinstance(built, Built)
        evaluator.builder.discard(built)
        assert evaluator.in_places([candidate]) == (times,) and not built.folder.exists(), "recorded, so not restored"
        # The build makes views of kernels that only reshape.
        assert {name for name in names if "reshape" not in name} <= set(times.kernels) <= names
        assert all(0 < value < 1 for value in times.kernels.values())
        # An inference is its kernels, and the calls between them.
        assert len(times.whole_s) == SHORT.places.processes
        assert all(value > 0.5 * sum(times.kernels.values()) for value in times.whole_s)


def test_a_schedule_that_fails_is_left_out(resnet: WorkerEvaluator) -> None:
    network = kernels_of(resnet, f"{BEFORE},{LOOPS}")
    wrong = PassSpec.of("ScheduleCPU", kernels={"no_such_kernel": {}})
    assert set(resnet.variants(network, network.kernels[0], [SCHEDULES[0], wrong])) == {SCHEDULES[0]}


def test_a_network_of_operators_has_no_kernels(resnet: WorkerEvaluator) -> None:
    assert kernels_of(resnet, BEFORE).kernels == ()


def test_times_of_kernels_hold_only_for_the_same_code_of_own_passes(relax: Toolchain, tmp_path: Path) -> None:
    shutil.copy(DATA / "bad_passes.yaml", tmp_path)
    shutil.copy(DATA / "bad_relax_passes.py", tmp_path / "bad_passes.py")
    model = resolve("zoo:resnet_tiny", folder=tmp_path / "models")

    def cache_path(*catalogs: Path) -> Path:
        return open_session(model, toolchain=relax.name, target=None, catalogs=catalogs).kernel_cache_path

    catalog = tmp_path / "bad_passes.yaml"
    assert cache_path(catalog) == cache_path(catalog)
    before = cache_path(catalog)
    with (tmp_path / "bad_passes.py").open("a") as file:
        file.write("# changed\n")
    assert cache_path(catalog) != before


def test_convolutions_of_one_shape_are_alike(resnet: WorkerEvaluator) -> None:
    state = resnet.reach(Pipeline.parse(f'{BEFORE},FoldConstant{{evaluator="numpy"}}'))
    assert isinstance(state, str)
    regions = resnet.regions(state, "passsearch.standalone.relax.graph_rewrites.winograd:regions")
    assert not isinstance(regions, Failure)
    assert len({region.key for region in regions}) == len(regions) > len({region.like for region in regions}) > 1


def test_a_run_composes_a_candidate_and_says_what_it_decided_between(
    relax: Toolchain, small_network: Path, tmp_path: Path
) -> None:
    plans = replace(short_plans.SHORT, explore_s=0.0)
    result = short_plans.tune(
        small_network, toolchain=relax.name, trials=4, confirm=0, out=tmp_path / "run", plans=plans
    )
    composition = result.document["composition"]
    assert composition["kernels"] > 3 and composition["predicted_s"] <= composition["begin_s"]
    assert Pipeline.parse(composition["pipeline"])
    assert "kernels timed in" in str(result)
