"""Closing the space of a small network on a real compiler."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from statistics import mean
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

import passsearch
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate import (
    Closure,
    Exploration,
    ExplorationLimits,
    Growth,
    Session,
    WorkerEvaluator,
    WorkerLimits,
    open_session,
)
from passsearch.evaluate.exploration import _FreeCompilers
from passsearch.evaluate.state_graph import Edge, StateGraph
from passsearch.frontends import resolve
from passsearch.search import explored_passes
from passsearch.store import Fact, Log
from passsearch.studies import check_certificate, read_closure
from passsearch.toolchain import Toolchain

DATA = Path(__file__).parents[1] / "data"
STEPS = ("SimplifyInference", 'FoldConstant{evaluator="numpy"}', "AlterOpLayout", "FuseOps{fuse_opt_level=2}")
DEADLINE_S = 20
Explore = Callable[..., tuple[WorkerEvaluator, Growth, tuple[PassSpec, ...]]]


@pytest.fixture
def bad_passes(tmp_path: Path) -> Path:
    for name in ("bad_passes.py", "bad_passes.yaml"):
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path / "bad_passes.yaml"


@pytest.fixture
def session(relay: Toolchain, small_network: Path, bad_passes: Path, tmp_path: Path) -> Session:
    file = resolve(small_network, folder=tmp_path)
    return open_session(file, toolchain=relay.name, target=None, catalogs=[bad_passes], limits=WorkerLimits(DEADLINE_S))


def test_a_session_changes_with_every_file_of_the_users_passes(
    session: Session, small_network: Path, tmp_path: Path
) -> None:
    def digest() -> str:
        options: dict[str, Any] = {
            "toolchain": session.toolchain.name,
            "target": None,
            "limits": WorkerLimits(DEADLINE_S),
        }
        file = resolve(small_network, folder=tmp_path)
        return open_session(file, catalogs=[tmp_path / "bad_passes.yaml"], **options).catalogs_sha256

    digests = [digest()]
    for name in ("bad_passes.py", "mine/__init__.py", "mine/rules/rows.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# changed\n")
        digests.append(digest())
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "other.py").write_text("# no package beside the catalog\n")
    digests.append(digest())
    assert len(set(digests[:-1])) == 4 and digests[-1] == digests[-2]


@pytest.fixture
def explore(session: Session, tmp_path: Path) -> Any:
    """Explores in a folder of its own; the log stays from one call to the next."""

    def run(
        passes: tuple[str, ...],
        *,
        compilers: int = 2,
        progress: Callable[[int, int], None] = lambda *_: None,
        **limits: Any,
    ) -> Any:
        log = Log(tmp_path / "log.jsonl")
        with log, WorkerEvaluator(session, log=log, folder=tmp_path / "artifacts") as evaluator:
            steps, _ = explored_passes(session, evaluator.network.summary, passes=passes)
            exploration = Exploration(
                evaluator.applier, steps, limits=ExplorationLimits(**limits), compilers=compilers, progress=progress
            )
            return evaluator, exploration.run(), steps

    return run


@pytest.fixture(scope="module")
def closed_states(relay: Toolchain, small_network: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The states of the small network that the steps reach."""
    folder = tmp_path_factory.mktemp("closed")
    session = open_session(resolve(small_network, folder=folder), toolchain=relay.name, target=None)
    with Log(folder / "log.jsonl") as log, WorkerEvaluator(session, log=log, folder=folder / "artifacts") as evaluator:
        steps, _ = explored_passes(session, evaluator.network.summary, passes=STEPS)
        limits = ExplorationLimits()
        Exploration(evaluator.applier, steps, limits=limits, compilers=1, progress=lambda *_: None).run()
    return set(evaluator.graph)


def test_a_closed_space_holds_the_end_of_every_sequence(explore: Explore) -> None:
    evaluator, growth, steps = explore(STEPS)
    assert growth.ended == "closed" and not growth.nondeterministic
    closure = Closure.of(evaluator.graph, steps)
    assert closure.closed and 4 < len(closure.states) < 60
    for sequence in product(steps, repeat=3):
        end = evaluator.reach(Pipeline(sequence))  # nothing is applied: the evaluator is closed
        assert isinstance(end, Failure) or end in closure.states


class Language:
    """Two passes on states that are words: ``Grow`` adds a letter twice, ``Restless`` agrees with itself once only."""

    def __init__(self) -> None:
        self.graph, self.restless = StateGraph(""), 0

    def apply(self, state: str, step: PassSpec) -> Fact:
        if step.name == "Restless":
            self.restless += 1
            return {"state": f"{state}r{max(0, self.restless - 2)}", "seconds": 0.0}
        return {"state": state if len(state) == 2 else f"{state}g", "seconds": 0.0}

    def cached_edge(self, state: str, step: PassSpec) -> Edge | None:
        return self.graph.edge(state, step)

    def record_edge(self, state: str, step: PassSpec, *, fact: Fact) -> Edge:
        self.graph.add(state, step, edge=Edge.from_fact(fact))
        return Edge.from_fact(fact)

    def forbid(self, step: PassSpec, reason: str) -> None:
        self.graph.forbid(step, Failure("unstable", "apply", step.name, reason))

    def is_forbidden(self, step: PassSpec) -> bool:
        return isinstance((self.graph.edge("", step) or Edge("", 0.0)).target, Failure)

    @contextmanager
    def compilers(self, number: int) -> Iterator[list[Any]]:
        yield [self]


def test_states_that_a_pass_should_not_have_reached_leave_room_for_others() -> None:
    language: Any = Language()
    steps = [PassSpec.of("Restless"), PassSpec.of("Grow")]
    exploration = Exploration(
        language, steps, limits=ExplorationLimits(states=3), compilers=1, progress=lambda *_: None
    )
    growth = exploration.run()
    assert growth.nondeterministic == ["Restless"]
    assert growth.by_step == {"Grow": 2} and set(language.graph) == {"", "g", "gg"}


def test_what_was_explored_is_not_applied_again(explore: Explore) -> None:
    first = explore(STEPS)
    again = explore(STEPS, compilers=1)
    assert first[1].applied_count > 0 and again[1].applied_count == 0 and again[1].ended == "closed"
    assert set(first[0].graph) == set(again[0].graph)


def test_passes_that_seem_to_be_no_ops_wait_until_the_others_are_done(
    explore: Explore, closed_states: set[str], tmp_path: Path
) -> None:
    no_ops = ("CanonicalizeCast", "DivToMul")
    evaluator, growth, _ = explore((*no_ops, *STEPS), compilers=1, no_op_states=1)
    assert growth.ended == "closed" and set(evaluator.graph) == closed_states
    tried = [json.loads(line[line.index(b"{") :]) for line in (tmp_path / "log.jsonl").read_bytes().splitlines()]
    order = [each["key"].partition("|")[2] in no_ops for each in tried if each["kind"] == "edge"]
    waited, went_on = ([place for place, each in enumerate(order) if each == waits] for waits in (True, False))
    assert mean(waited) > mean(went_on) + len(order) / 10


@pytest.mark.parametrize("limit", [pytest.param({"depth": 1}, marks=pytest.mark.slow), {"states": 2}])
def test_a_limit_ends_it_and_the_rest_follows_later(explore: Explore, limit: dict[str, int]) -> None:
    evaluator, growth, steps = explore(STEPS, **limit)
    assert growth.ended in limit and not evaluator.graph.closed(steps)
    evaluator, growth, steps = explore(STEPS)
    assert growth.ended == "closed" and evaluator.graph.closed(steps)


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param("Crash", "crash", marks=pytest.mark.slow), ("Refuse", "compile_error")]
)
def test_a_pass_that_fails_is_an_edge_that_leads_nowhere(explore: Explore, name: str, kind: str) -> None:
    evaluator, growth, steps = explore(("SimplifyInference", name))
    closure = Closure.of(evaluator.graph, steps)
    assert growth.ended == "closed" and {each.kind for each in closure.failures} == {kind}
    assert len(closure.states) == 2


def test_a_pass_that_does_not_do_the_same_twice_is_never_merged(explore: Explore) -> None:
    evaluator, growth, steps = explore(("SimplifyInference", "Restless"))
    assert growth.nondeterministic == ["Restless"] and growth.ended == "closed"
    closure = Closure.of(evaluator.graph, steps)
    assert len(closure.states) == 2 and {each.kind for each in closure.failures} == {"unstable"}
    found = evaluator.reach(Pipeline.parse("Restless"))
    assert isinstance(found, Failure) and "two different IRs" in found.reason


def test_states_that_only_such_a_pass_reached_do_not_count(explore: Explore, closed_states: set[str]) -> None:
    evaluator, growth, _ = explore((*STEPS, "Restless"))
    assert growth.ended == "closed" and set(evaluator.graph) == closed_states
    assert growth.curve[-1][1:] == (len(closed_states),) * 2


def test_states_outlive_the_process_that_made_them(explore: Explore, closed_states: set[str]) -> None:
    """After a crash the other passes still find their states, though memory of them went with the process."""
    evaluator, growth, _ = explore((*STEPS, "Crash"), compilers=1)
    assert growth.ended == "closed" and set(evaluator.graph) == closed_states


def test_a_certificate_holds_for_its_network_until_it_is_tampered_with(
    explore: Explore, session: Session, small_network: Path, relay: Toolchain, tmp_path: Path
) -> None:
    document = passsearch.explore(small_network, passes=STEPS, toolchain=relay.name, remember=False)
    assert document["closed"] and document["states"] == len(document["graph"]["states"])
    assert "space: closed: " in repr(document) and len(repr(document)) < 5000
    held = passsearch.check_space(document, small_network, sample=12)
    assert held["holds"] and held["checked"] == 12
    another = {**document, "model": {**document["model"], "sha256": "another"}}
    found = passsearch.check_space(another, small_network, sample=1)
    assert not found["holds"] and found["problems"][0].startswith("network: here `")
    edges = document["graph"]["table"]
    edges[0] = [0] * len(STEPS)  # says that nothing changes the network
    with Log(tmp_path / "check.jsonl") as log:
        options: dict[str, Any] = {"sample": 1000, "seed": 0, "progress": lambda *_: None}
        with WorkerEvaluator(session, log=log, folder=tmp_path / "check") as evaluator:
            result = check_certificate(document, read_closure(document, "it"), evaluator=evaluator, **options)
    assert not result.holds and "SimplifyInference" in result.problems[0]
    assert f"the file has no pipeline that reaches {document['graph']['states'][1]}" in result.problems


def test_passes_with_which_no_space_closes_are_explored_on_request_only(session: Session, tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    with log, WorkerEvaluator(session, log=log, folder=tmp_path / "artifacts") as evaluator:
        summary = evaluator.network.summary
    steps, left_out = explored_passes(session, summary, passes=None)
    assert left_out == ("ConvertLayout",) and "ConvertLayout" not in {step.name for step in steps}
    steps, left_out = explored_passes(session, summary, passes=None, additional=["ConvertLayout"])
    assert left_out == () and "ConvertLayout" in {step.name for step in steps}
    steps, left_out = explored_passes(session, summary, passes=["FuseOps"], additional=["ConvertLayout"])
    assert {step.name for step in steps} == {"FuseOps", "ConvertLayout"}


def test_ctrl_c_waits_for_no_pass_that_hangs(explore: Explore) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    begin, threads = time.monotonic(), set(enumerate_threads())
    with pytest.raises(KeyboardInterrupt):
        # Each compiler has a pass that hangs soon; a third edge waits.
        explore(("Hang", *STEPS), compilers=2, progress=interrupt)
    assert time.monotonic() - begin < DEADLINE_S
    for thread in set(enumerate_threads()) - threads:
        thread.join(DEADLINE_S / 2)
        assert not thread.is_alive()


def test_who_waits_for_a_compiler_gets_none_after_the_exploration_was_stopped() -> None:
    compiler: Any = object()
    free, refused = _FreeCompilers([compiler]), Event()

    def wait() -> None:
        with suppress(CancelledError):
            free.take_compiler(None)
            return
        refused.set()

    assert free.take_compiler(None) is compiler
    Thread(target=wait, daemon=True).start()  # not waited for, if it hangs
    assert not refused.wait(0.2)
    free.stop()
    assert refused.wait(10)
