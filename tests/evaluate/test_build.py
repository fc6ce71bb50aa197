"""Builds that do not end cost a search a part of its time."""

from pathlib import Path

import pytest

from passsearch.api.common import open_evaluator
from passsearch.core import Candidate, Failure, Pipeline
from passsearch.evaluate import WorkerLimits, open_session
from passsearch.frontends import resolve
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
