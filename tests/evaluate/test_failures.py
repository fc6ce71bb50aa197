"""The error by which a failure ends a command, and what the machine is to blame for."""

from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.core import Failure, FailureKind
from passsearch.errors import WorkerDied
from passsearch.evaluate.compiler import Compiler


@pytest.mark.parametrize(
    ("kind", "exit_code"), [("infra", 3), ("oom", 3), ("crash", 2), ("wrong_result", 2), ("timeout", 2)]
)
def test_a_command_ends_by_a_fault_of_the_machine_or_of_the_request(kind: FailureKind, exit_code: int) -> None:
    assert Failure(kind, "build", "", "reason").as_error("text").exit_code == exit_code


HANGS = WorkerDied("no answer", kind="timeout")
"""A worker that an earlier request has left hanging: it does not even say which states it holds."""


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([{"error": {"kind": "oom", "reason": "no memory"}}], "oom"),
        ([{"state": "root"}, {"error": {"kind": "infra", "reason": "disk full"}}], "infra"),
        ([{"state": "root"}, {"error": {"kind": "compile_error", "reason": "refused"}}], "unstable"),
        ([{"state": "root"}, {"state": "another"}], "unstable"),
        ([HANGS], "infra"),
        ([{"state": "root"}, HANGS], "infra"),
        ([{"state": "root"}, WorkerDied("the process ended", kind="crash")], "infra"),
    ],
)
def test_a_state_that_is_not_reached_again_is_no_failure_of_what_was_to_be_done_with_it(
    answers: list[dict[str, Any] | WorkerDied], kind: str
) -> None:
    graph: Any = SimpleNamespace(steps_to=lambda _: [("root", "pass")])
    session: Any = SimpleNamespace(limits=SimpleNamespace(deadline_of=lambda _: 1.0))
    source: Any = SimpleNamespace(to_request=dict)
    pool: Any = SimpleNamespace(compiler=lambda: worker)
    compiler = Compiler(pool, graph, session=session, source=source)
    compiler.step_request = lambda _: {}  # type: ignore[method-assign]
    remaining = iter(answers)

    def ask(request: dict[str, Any], **_: object) -> dict[str, Any]:
        if request["verb"] == "hold" and answers != [HANGS]:
            return {}
        answer = next(remaining, {"state": "root"})
        if isinstance(answer, WorkerDied):
            raise answer
        return answer

    worker: Any = SimpleNamespace(ask=ask)
    with pytest.raises(WorkerDied) as died:
        compiler._worker_with("goal")
    assert died.value.kind == kind
