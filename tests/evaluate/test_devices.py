"""Targets: what is completed, and what is mistyped."""

from typing import Any

import pytest

from passsearch.errors import UserError
from passsearch.evaluate.devices import complete_target

MISTYPED = [("lvm", "llvm"), ("LLVM -mcpu=native", "llvm"), ('{"kind": "cudaa"}', "cuda")]


@pytest.mark.parametrize(("target", "kind"), MISTYPED)
def test_a_mistyped_kind_of_target_is_corrected(target: str, kind: str) -> None:
    unused: Any = None
    with pytest.raises(UserError, match=f"did you mean `{kind}`"):
        complete_target(target, unused, unused)


def test_kinds_that_are_like_no_usual_one_are_left_to_the_compiler() -> None:
    unused: Any = None
    assert complete_target("stackvm", unused, unused) == "stackvm"
