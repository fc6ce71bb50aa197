"""What a script has shown, and whether that is the fault to be reproduced."""

import pytest

from passsearch.dialects.reproduction import CRASH, REFUSAL, WRONG
from passsearch.studies.reproduction_fault import Shown, failure_of, read_shown, slowdown_of
from passsearch.worker import WatchedRun

LIMIT = 1e-5


def run(output: str, status: int | None = 0) -> Shown:
    return read_shown(WatchedRun(status, output, "Traceback\nValueError: no such file"))


CRASHED = run('{"step": "import"}\n{"step": "FuseOps"}\nsome text of the compiler\n', -11)
REFUSED = run('{"step": "import"}\n{"refused": "OpNotImplemented: Operator Foo of `v3` is not supported."}\n')
DEVIATES = run('{"step": "run"}\n{"deviation": 0.5}\n')
SLOW = run('{"ratio": 4.0, "quartiles": [3.9, 4.1], "pairs": 9}\n')


def test_a_script_that_fails_itself_proves_nothing() -> None:
    broken = run("", 1)
    assert failure_of(broken, limit=LIMIT) is None and slowdown_of(broken, ratio=None) is None
    assert broken.text == "ValueError: no such file"


@pytest.mark.parametrize(
    ("shown", "kind", "same", "other"),
    [
        (CRASHED, CRASH, run('{"step": "FuseOps"}', -11), run('{"step": "build"}', -11)),
        (CRASHED, CRASH, run('{"step": "FuseOps"}', -11), run('{"step": "FuseOps"}', -6)),
        (
            REFUSED,
            REFUSAL,
            run('{"step": "import"}\n{"refused": "OpNotImplemented: Operator Foo of `v12` is not supported."}'),
            run('{"step": "import"}\n{"refused": "OpNotImplemented: The model has no inputs"}'),
        ),
        (
            REFUSED,
            REFUSAL,
            run('{"step": "import"}\n{"refused": "OpNotImplemented: Operator Foo of `v12` is not supported"}'),
            run('{"step": "import"}\n{"refused": "OpNotImplemented: Operator Bar of `v3` is not supported."}'),
        ),
        (
            run('{"step": "FuseOps"}\n{"refused": "ValueError: no rule for nn.softmax"}'),
            REFUSAL,
            run('{"step": "FuseOps"}\n{"refused": "ValueError: no rule for nn.softmax"}'),
            run('{"step": "FuseOps"}\n{"refused": "ValueError: no rule for nn.relu"}'),
        ),
        (DEVIATES, WRONG, run('{"deviation": 0.2}'), run('{"deviation": 0.01}')),
        (DEVIATES, WRONG, run('{"deviation": 3.0}'), run('{"deviation": 1e30}')),
    ],
)
def test_another_fault_is_not_taken_for_this_one(shown: Shown, kind: str, same: Shown, other: Shown) -> None:
    fault = failure_of(shown, limit=LIMIT)
    assert fault is not None and fault.kind == kind
    assert fault.is_shown_by(same) and not fault.is_shown_by(other)


def test_rounding_is_no_fault() -> None:
    assert failure_of(run('{"deviation": 9e-6}'), limit=LIMIT) is None


def test_a_slowdown_keeps_most_of_the_ratio_first_seen() -> None:
    fault = slowdown_of(SLOW, ratio=None)
    assert fault is not None and fault.bound == pytest.approx(4**0.8)
    assert fault.is_shown_by(run('{"ratio": 3.1}')) and not fault.is_shown_by(run('{"ratio": 2.9}'))


def test_a_slowdown_keeps_the_ratio_that_is_asked_for() -> None:
    fault = slowdown_of(SLOW, ratio=2.0)
    assert fault is not None and fault.bound == 2.0
    assert slowdown_of(SLOW, ratio=5.0) is None


def test_lines_in_braces_that_a_pass_prints_are_no_documents() -> None:
    assert run("{'a': 1}\n{}\n" + '{"deviation": 0.5}\n').deviation == 0.5


def test_a_module_that_is_missing_is_no_refusal() -> None:
    missing = run('{"step": "Own"}\n{"refused": "ModuleNotFoundError: No module named \'siblings\'"}')
    assert failure_of(missing, limit=LIMIT) is None and "siblings" in missing.text


def test_what_fails_before_the_compiler_begins_is_no_refusal() -> None:
    failed = run('{"refused": "KeyError: \'target\'"}')
    assert failure_of(failed, limit=LIMIT) is None and "target" in failed.text


def test_a_message_does_not_say_where_a_user_works() -> None:
    shown = run('{"step": "import"}\n{"refused": "ValueError: no file /home/ada/private/probe/network.onnx, 1/2"}')
    assert shown.refusal == "ValueError: no file network.onnx, 1/2"
