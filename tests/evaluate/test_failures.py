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


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([{"error": {"kind": "oom", "reason": "no memory"}}], "oom"),
        ([{"state": "root"}, {"error": {"kind": "infra", "reason": "disk full"}}], "infra"),
        ([{"state": "root"}, {"error": {"kind": "compile_error", "reason": "refused"}}], "unstable"),
        ([{"state": "root"}, {"state": "another"}], "unstable"),
    ],
)
def test_a_state_that_the_machine_keeps_from_being_reached_again_is_not_unstable(
    answers: list[dict[str, Any]], kind: str
) -> None:
    graph: Any = SimpleNamespace(steps_to=lambda _: [("root", "pass")])
    session: Any = SimpleNamespace(limits=SimpleNamespace(deadline_of=lambda _: 1.0))
    source: Any = SimpleNamespace(to_request=dict)
    compiler = Compiler(SimpleNamespace(), graph, session=session, source=source)  # type: ignore[arg-type]
    compiler.step_request = lambda _: {}  # type: ignore[method-assign]
    held: dict[str, Any] = {}
    remaining = iter(answers)
    worker: Any = SimpleNamespace(
        ask=lambda request, **_: held if request["verb"] == "hold" else next(remaining, {"state": "root"})
    )
    with pytest.raises(WorkerDied) as died:
        compiler._reach_again(worker, "goal")
    assert died.value.kind == kind
