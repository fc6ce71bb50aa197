"""Builds that do not end cost a search a part of its time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.api.common import open_evaluator
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import WorkerLimits, open_session
from passsearch.evaluate.build import Builder
from passsearch.evaluate.disk_limit import DiskLimit
from passsearch.evaluate.facts import FactStore
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
    limits = WorkerLimits(600.0, run_s=4.0)
    session = open_session(model, toolchain=relax.name, target=None, catalogs=[catalog], limits=limits)
    candidate = Candidate(Pipeline.parse("SlowBuild"))
    waited_s = []
    for _ in range(2):  # the second start knows what the first one found
        with open_evaluator(session, folder=tmp_path / "run", remember=False) as evaluator:
            assert not isinstance(evaluator.build(evaluator.graph.root, Candidate()), Failure)
            state = evaluator.reach(candidate.pipeline)
            assert isinstance(state, str)
            before_s = evaluator.seconds["build"]
            failures = [evaluator.build(state, candidate) for _ in range(2)]
            assert [failure.kind for failure in failures if isinstance(failure, Failure)] == ["timeout", "timeout"]
            waited_s.append(evaluator.seconds["build"] - before_s)
    assert limits.share_s <= waited_s[0] < 5 * limits.share_s
    assert waited_s[1] == 0.0


@pytest.mark.parametrize(("is_built", "deadline_s"), [(False, 25.0), (True, 600.0)])
def test_a_late_verification_is_no_late_build(is_built: bool, deadline_s: float, tmp_path: Path) -> None:
    late = {"failure": Failure("timeout", "measure", "", "no answer").to_json()}
    built = {"seconds": 1.0, "digest": "binary", "kernels": "", "bytes": 0, "plan_bytes": 0}
    graph: Any = SimpleNamespace(root="imported")
    compiler: Any = SimpleNamespace(ask=lambda *_, **__: built if is_built else late)
    pool: Any = SimpleNamespace(ask=lambda *_, **__: late, timer=None)
    summary = SimpleNamespace(computed_types=("float32",), quantizes=False)
    network: Any = SimpleNamespace(summary=summary, request=dict)
    session: Any = SimpleNamespace(
        limits=WorkerLimits(600.0, run_s=100.0), cannot_run_reason="", device="cpu", output_cases=()
    )
    with Log(tmp_path / "log.jsonl") as log:
        facts = FactStore(session, log, cache=None, seconds={})
        applier: Any = SimpleNamespace(graph=graph, compiler=compiler)
        folders: dict[str, Any] = {"folder": tmp_path, "disk": DiskLimit(tmp_path, log)}
        builder = Builder(session, network=network, facts=facts, pool=pool, applier=applier, **folders)
        builder.reference.touch()
        assert isinstance(builder.build("state", Candidate()), Failure)
        assert log.recall("build", "state|O0")["deadline_s"] == deadline_s  # type: ignore[index]
