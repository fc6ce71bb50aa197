"""ONNX's backend tests are right or refused; the files ``refused.txt`` of the dialects list what is refused.

A list can only shrink: a test that is refused and not listed fails, and so does one that is listed and right.

The files ``deviating.txt`` list what is wrong on some processor; that of Relax is empty.
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

sys.path.insert(0, str(HERE.parents[1]))


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_backend_tests_are_right_or_refused_as_listed(dialect: str, toolchain_of: object) -> None:
    from benchmarks.imports.onnx_backend_tests import run

    answers = run(dialect)
    assert len(answers) > 2500
    deviating = set((HERE / dialect / "deviating.txt").read_text().splitlines())
    others = {name: answer for name, answer in answers.items() if answer["state"] not in ("right", "refused")}
    assert [each for name, each in others.items() if name not in deviating or each["state"] != "wrong"] == []
    refused = {name for name, answer in answers.items() if answer["state"] == "refused"}
    listed = set((HERE / dialect / "refused.txt").read_text().splitlines())
    assert sorted(refused - listed) == [], "refused, and not listed"
    assert sorted(listed & answers.keys() - refused) == [], "listed, and right"
    reasons = [answer["reason"] for answer in answers.values() if answer["state"] == "refused"]
    assert [reason for reason in reasons if "\n" in reason or not reason] == []
