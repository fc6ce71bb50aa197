"""Builds that do not end, and what a build is remembered as."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.api.common import open_evaluator
from passsearch.core import BuildOptions, Candidate, CheckInputs, Failure, PassSpec, Pipeline
from passsearch.evaluate import OUTPUT_CASES, Built, WorkerEvaluator, WorkerLimits, open_session
from passsearch.evaluate.build import Builder
from passsearch.evaluate.disk_limit import DiskLimit
from passsearch.evaluate.facts import FactStore
from passsearch.evaluate.pool import LEAST_LEFT_S
from passsearch.frontends import resolve
from passsearch.store import Log
from passsearch.toolchain import Toolchain

SLOW = """
import time
import tvm


def slow():
    # Takes the place of LLVM's code generation in this process and in its forks.
    generate = tvm.get_global_func("target.build.llvm")

    def slowed(*arguments):
        time.sleep(1000)
        return generate(*arguments)

    def change(module):
        tvm.register_global_func("target.build.llvm", slowed, override=True)
        return tvm.relax.transform.LegalizeOps()(module)

    return tvm.transform.module_pass(lambda module, _: change(module), opt_level=0, name="SlowBuild")
"""
CATALOG = """passes:
  - {name: SlowBuild, summary: Lets builds not end., factory: "slow_build:slow", opt_level: 0}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    (tmp_path / "slow_build.py").write_text(SLOW)
    (tmp_path / "catalog.yaml").write_text(CATALOG)
    return tmp_path / "catalog.yaml"


def test_a_build_that_does_not_end_is_given_up_before_the_deadline(
    relax: Toolchain, catalog: Path, tiny_network: Path, tmp_path: Path
) -> None:
    model = resolve(str(tiny_network), folder=tmp_path / "models")
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[catalog])
    candidate = Candidate(Pipeline.parse("SlowBuild"))
    waited_s = []
    for run_s in (15.0, 2.0):  # the second start has less time, and knows what the first one found
        session = replace(session, limits=WorkerLimits(600.0, timeout_s=run_s))
        with open_evaluator(session, folder=tmp_path / "run", remember=False) as evaluator:
            assert not isinstance(evaluator.build(evaluator.graph.root, Candidate()), Failure)
            state = evaluator.reach(candidate.pipeline)
            assert isinstance(state, str)
            before_s = evaluator.seconds["build"]
            failures = [evaluator.build(state, candidate) for _ in range(2)]
            assert [failure.kind for failure in failures if isinstance(failure, Failure)] == ["timeout", "timeout"]
            waited_s.append(evaluator.seconds["build"] - before_s)
    assert LEAST_LEFT_S <= waited_s[0] < 30.0
    assert waited_s[1] == 0.0


@pytest.mark.parametrize(("kind", "limit_s"), [("build", 50.0), ("samples", 200.0)])
def test_earlier_starts_count_until_there_is_a_baseline(
    relax: Toolchain, tiny_network: Path, tmp_path: Path, kind: str, limit_s: float
) -> None:
    model = resolve(str(tiny_network), folder=tmp_path / "models")
    session = open_session(model, toolchain=relax.name, target=None)
    session = replace(session, limits=WorkerLimits(600.0, timeout_s=200.0))
    with Log(tmp_path / "log.jsonl") as log:
        log.charge(150.0)
        log.record(kind, "", fact={})
    with (
        Log(tmp_path / "log.jsonl") as log,
        WorkerEvaluator(session, log=log, folder=tmp_path / "artifacts") as evaluator,
    ):
        # Artifacts of a run with a baseline may have to be made again, however late it is.
        assert evaluator._pool._time_limit.limit_s == pytest.approx(limit_s, abs=1.0)


CRASH = {"failure": Failure("crash", "measure", "", "killed by SIGSEGV").to_json()}
RIGHT = {"run_s": 0.1, "cases": 1, "is_cut": False, "case": 1, "mismatch": "", "deviation": 0.0, "leads": None}


class Compiler:
    """Compiles every state into a folder, and makes its digest of its name."""

    def ask(self, *_: object, state: str, folder: str, **__: object) -> dict[str, Any]:
        Path(folder).mkdir()
        return {"digest": state, "kernels": state, "seconds": 1.0, "bytes": 1, "plan_bytes": 0}


class Scheduling(Compiler):
    """A compiler of which every build has a binary of its own."""

    def passes_request(self, passes: Sequence[PassSpec]) -> list[str]:
        """Return the names of passes."""
        return list(map(str, passes))

    def ask(self, *_: object, state: str, folder: str, **request: object) -> dict[str, Any]:
        """Answer a build."""
        assert ("passes" in request) == ("reference" in folder)
        return {**super().ask(state=state, folder=folder), "digest": folder}


class NoPasses(Compiler):
    """A compiler on which every build fails that has passes of its own."""

    def passes_request(self, passes: Sequence[PassSpec]) -> list[str]:
        """Return the names of passes."""
        return list(map(str, passes))

    def ask(self, *_: object, state: str, folder: str, **request: object) -> dict[str, Any]:
        """Answer a build."""
        return CRASH if "passes" in request else super().ask(state=state, folder=folder)


def make_builder(
    folder: Path,
    answer: dict[str, Any],
    *,
    cache: Log,
    log: Log,
    cannot_run_reason: str = "",
    reference_steps: Sequence[PassSpec] = (),
) -> Builder:
    """Return a builder whose verifications have this answer."""
    folder.mkdir(exist_ok=True)
    dialect = SimpleNamespace(baseline=Candidate(build=BuildOptions(opt_level=3)))
    session: Any = SimpleNamespace(
        limits=WorkerLimits(600.0),
        cannot_run_reason=cannot_run_reason,
        device="cpu",
        reference_steps=reference_steps,
        output_cases=(1,),
        dialect=dialect,
        deviation_limit=lambda _, strict: strict,
        catalog=SimpleNamespace(approximates=lambda _: False),
        model=SimpleNamespace(limit=None),
        budget=None,
        tolerated=lambda _: None,
        has_budget=lambda _: False,
    )
    network: Any = SimpleNamespace(
        summary=SimpleNamespace(computed_types=("float32",), quantizes=False, rounded_types=()),
        request=dict,
        check=CheckInputs({}),
    )
    compiler = NoPasses() if reference_steps else Compiler()
    applier: Any = SimpleNamespace(graph=SimpleNamespace(root="imported"), compiler=compiler)
    pool: Any = SimpleNamespace(ask=lambda *_, **__: answer, timer=None, left_s=lambda **_: math.inf)
    facts = FactStore(session, log, cache=cache, seconds={})
    disk = DiskLimit(folder, log)
    return Builder(
        session, network=network, facts=facts, pool=pool, applier=applier, folder=folder, disk=disk, origin={}
    )


def test_a_reference_that_fails_is_not_remembered_as_the_candidates_failure(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        failure = make_builder(tmp_path / "a", CRASH, cache=cache, log=log).build("state", Candidate())
        assert isinstance(failure, Failure) and failure.kind == "crash" and not failure.is_of_machine
        assert "the build that outputs are compared with failed: killed by SIGSEGV" in failure.reason
        assert cache.recall("build", "state|O0") is None and log.recall("build", "state|O0") is None


class Refusing(Compiler):
    """A compiler that refuses the network."""

    def ask(self, *_: object, state: str, folder: str, **__: object) -> dict[str, Any]:
        """Refuse a build."""
        return {"failure": Failure("compile_error", "build", "", "op `relax.x` has no legalization").to_json()}


def test_a_reference_that_the_compiler_refuses_is_no_fault_of_the_machine(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log)
        builder._applier.compiler = Refusing()  # type: ignore[assignment]
        for candidate in (Candidate(), Candidate(build=BuildOptions(opt_level=3))):
            failure = builder.build("imported", candidate)
            assert (
                isinstance(failure, Failure) and failure.kind == "compile_error" and "no legalization" in failure.reason
            )
            assert not failure.is_of_machine and "doctor" not in str(failure.as_error(failure.reason))


def test_where_the_reference_fails_by_its_passes_it_is_built_by_none(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        steps = (PassSpec.of("Schedule"),)
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log, reference_steps=steps)
        assert isinstance(builder.build("state", Candidate()), Built)
        assert log.recall("build", "imported|O0") is not None, "the reference"


def test_where_a_baseline_disagrees_the_reference_has_no_passes(tmp_path: Path) -> None:
    """The first two comparisons are those of a reference with passes and of a baseline that disagrees with it."""
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        steps = (PassSpec.of("Schedule"),)
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log, reference_steps=steps)
        builder._applier.compiler = Scheduling()  # type: ignore[assignment]
        answers = iter([RIGHT, {**RIGHT, "deviation": 0.5, "deviations": {"1": 0.5}}, RIGHT, RIGHT])
        requests = []

        def verify(*_: object, request: dict[str, Any], **__: object) -> dict[str, Any]:
            requests.append(Path(request["folder"]).name)
            if request["reference"] is None:
                builder.reference.touch()
            return next(answers)

        builder.verification._pool.ask = verify  # type: ignore[method-assign]
        assert isinstance(builder.build("imported", Candidate(build=BuildOptions(opt_level=3))), Built)
        assert requests == [f"{name}.partial" for name in ("reference", "imported-O3", "imported-O0", "imported-O3")]
        assert log.recall("reference", "imported") is not None
        again = make_builder(tmp_path / "b", RIGHT, cache=cache, log=log, reference_steps=steps)
        assert again._reference_steps == ()


def test_on_a_cpu_the_reference_of_relax_has_schedules(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    session = open_session(resolve(str(tiny_network), folder=tmp_path / "models"), toolchain=relax.name, target=None)
    assert [step.name for step in session.reference_steps] == ["LegalizeOps", "ScheduleCPU"]
    with open_evaluator(session, folder=tmp_path / "run", remember=False) as evaluator:
        built = evaluator.build(evaluator.graph.root, Candidate())
        assert isinstance(built, Built) and built.agreement and built.agreement.cases == len(OUTPUT_CASES)
        assert built.agreement.deviation is not None and built.agreement.deviation <= built.agreement.limit
        assert evaluator.graph.states == 1, "the reference is no state of a search"
        compiler, root = evaluator.applier.compiler, evaluator.graph.root
        request: dict[str, Any] = {"options": BuildOptions().to_json(), "folder": str(tmp_path / "again")}
        passes = compiler.passes_request(session.reference_steps)
        assert compiler.ask("build", "build", state=root, passes=passes, **request)["digest"] != built.digest
        assert not (tmp_path / "run" / "reference").exists()


def test_a_build_whose_outputs_were_not_compared_is_made_again_where_it_runs(tmp_path: Path) -> None:
    with Log(tmp_path / "cache.jsonl") as cache:
        with Log(tmp_path / "first.jsonl") as log:
            blind = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log, cannot_run_reason="no GPU here")
            unseen = blind.build("state", Candidate())
            assert isinstance(unseen, Built) and unseen.agreement is not None and unseen.agreement.deviation is None
        with Log(tmp_path / "second.jsonl") as log:
            seeing = make_builder(tmp_path / "b", RIGHT, cache=cache, log=log)
            seeing.reference.touch()
            seen = seeing.build("state", Candidate())
            assert isinstance(seen, Built) and seen.agreement is not None and seen.agreement.deviation == 0.0


@pytest.mark.parametrize(("is_built", "deadline_s"), [(False, 25.0), (True, 600.0)])
def test_a_late_verification_is_no_late_build(is_built: bool, deadline_s: float, tmp_path: Path) -> None:
    late = {"failure": Failure("timeout", "measure", "", "no answer").to_json()}
    built = {"seconds": 1.0, "digest": "binary", "kernels": "", "bytes": 0, "plan_bytes": 0}
    graph: Any = SimpleNamespace(root="imported")
    compiler: Any = SimpleNamespace(ask=lambda *_, **__: built if is_built else late)
    pool: Any = SimpleNamespace(ask=lambda *_, **__: late, timer=None, left_s=lambda **_: math.inf)
    summary = SimpleNamespace(computed_types=("float32",), quantizes=False, rounded_types=())
    network: Any = SimpleNamespace(summary=summary, request=dict, check=CheckInputs({}))
    session: Any = SimpleNamespace(
        limits=WorkerLimits(600.0, timeout_s=100.0),
        cannot_run_reason="",
        device="cpu",
        output_cases=(),
        reference_steps=(),
        model=SimpleNamespace(limit=None),
        budget=None,
    )
    with Log(tmp_path / "log.jsonl") as log:
        facts = FactStore(session, log, cache=None, seconds={})
        applier: Any = SimpleNamespace(graph=graph, compiler=compiler)
        folders: dict[str, Any] = {"folder": tmp_path, "disk": DiskLimit(tmp_path, log)}
        builder = Builder(session, network=network, facts=facts, pool=pool, applier=applier, origin={}, **folders)
        builder.reference.touch()
        assert isinstance(builder.build("state", Candidate()), Failure)
        assert log.recall("build", "state|O0")["deadline_s"] == deadline_s  # type: ignore[index]


WRONG = {**RIGHT, "deviation": 0.5, "deviations": {"1": 0.5}}


@pytest.mark.parametrize(
    ("digest", "answer", "kind", "compared"),
    [("state", WRONG, None, 0), ("another", RIGHT, None, 1), ("another", WRONG, "wrong_result", 2)],
)
def test_a_fresh_compile_of_another_binary_is_timed_only_if_its_outputs_are_right(
    digest: str, answer: dict[str, Any], kind: str | None, compared: int, tmp_path: Path
) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log)
        builder.reference.touch()
        assert isinstance(builder.build("state", Candidate()), Built)
        requests = []

        def verify(*_: object, request: dict[str, Any], **__: object) -> dict[str, Any]:
            requests.append(request["folder"])
            return answer

        def compile_fresh(_: str, request: dict[str, Any]) -> dict[str, Any]:
            Path(request["folder"]).mkdir()
            return {"state": "state", "digest": digest, "apply_s": 1.0, "seconds": 1.0, "wall_s": 3.0}

        pool: Any = SimpleNamespace(ask=verify, ask_new=compile_fresh, timer=None, left_s=lambda **_: math.inf)
        builder._pool = builder.verification._pool = pool
        builder._applier.compiler.compile_request = lambda _, folder: {"folder": str(folder)}  # type: ignore[method-assign]
        builder._applier.reach = lambda _: "state+"  # type: ignore[method-assign]
        for repetition in ("first", "second"):
            compiled = builder.compile_fresh(repetition, Candidate(), timing_key="", kinds=())
            assert (compiled.kind if isinstance(compiled, Failure) else None) == kind
        # A binary that was found right is not compared again.
        assert len(requests) == compared


@pytest.mark.parametrize(("answer", "is_right"), [(RIGHT, True), (WRONG, False)])
def test_another_binary_than_before_is_judged_again(answer: dict[str, Any], is_right: bool, tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log)
        builder.reference.touch()
        builder._applier.compiler = Counting()  # type: ignore[assignment]
        built = builder.build("state", Candidate())
        assert isinstance(built, Built)
        builder.discard(built)
        builder.verification._pool.ask = lambda *_, **__: answer  # type: ignore[method-assign]
        again = builder.restore(built)
        assert isinstance(again, Built) == is_right
        assert isinstance(again, Failure) or again.digest != built.digest


def test_outputs_are_judged_again_by_another_toolchains_reference(tmp_path: Path) -> None:
    (tmp_path / "reference.npz").write_bytes(b"outputs of another toolchain")
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log)
        builder.reference.touch()
        assert isinstance(builder.build("state", Candidate()), Built)
        again = make_builder(tmp_path / "a", WRONG, cache=cache, log=log)
        again.take_reference(tmp_path / "reference.npz", again.verification._network)
        outcome = again.build("state", Candidate())
        assert isinstance(outcome, Failure) and outcome.kind == "wrong_result"


class Counting(Compiler):
    """A compiler that makes another binary every time."""

    builds = 0

    def ask(self, *_: object, state: str, folder: str, **__: object) -> dict[str, Any]:
        """Answer a build."""
        self.builds += 1
        return {**super().ask(state=state, folder=folder), "digest": f"{state} {self.builds}"}


class Slow(Compiler):
    """A compiler that notes how long a build may take."""

    limits_s: list[float]

    def ask(self, *_: object, state: str, folder: str, deadline_s: float = 0.0, **__: object) -> dict[str, Any]:
        """Answer a build."""
        self.limits_s = [*getattr(self, "limits_s", []), deadline_s]
        return super().ask(state=state, folder=folder)


def test_a_baseline_is_waited_for_until_the_time_limit(tmp_path: Path) -> None:
    with Log(tmp_path / "log.jsonl") as log, Log(tmp_path / "cache.jsonl") as cache:
        builder = make_builder(tmp_path / "a", RIGHT, cache=cache, log=log)
        session: Any = builder._session
        session.limits, builder._applier.compiler = WorkerLimits(600.0, timeout_s=60.0), Slow()  # type: ignore[assignment]
        builder._pool.left_s = lambda **_: 40.0  # type: ignore[method-assign]
        builder.build("imported", Candidate(build=BuildOptions(opt_level=3)))
        assert set(builder._applier.compiler.limits_s) == {40.0}  # type: ignore[attr-defined]
        # A candidate's own limit is a share of the run's.
        builder.build("state", Candidate())
        assert builder._applier.compiler.limits_s[-1] <= 30.0  # type: ignore[attr-defined]
