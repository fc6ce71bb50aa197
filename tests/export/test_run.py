"""A run whose result was edited is refused in a line before anything is written."""

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from passsearch.errors import UserError
from passsearch.evaluate import dialect_digest
from passsearch.export import export_run
from passsearch.store import NETWORK

RESULT = json.loads((Path(__file__).parents[1] / "data" / "results" / "resnet_tiny-relax.json").read_text())
UNKNOWN = ",".join(["Unknown", *RESULT["best"]["pipeline"].split(",")[1:]])
EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another pass": (lambda result: result["best"].update(pipeline=UNKNOWN), "no `module:function` for pass `Unknown`"),
    "fewer states": (lambda result: result["deployment"]["states"].pop(), "one state after each pass"),
}


def test_a_run_of_other_code_is_exported_with_a_notice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NETWORK).write_text("{}")
    for made_by, notices in ((dialect_digest("relax"), 0), ("0123", 1)):
        (tmp_path / "run.json").write_text(json.dumps({"dialect_code": made_by}))
        caplog.clear()
        with contextlib.suppress(UserError):  # the network file is none
            export_run(RESULT, tmp_path, to=tmp_path / "deployment")
        assert sum("another version of passsearch" in message for message in caplog.messages) == notices


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_result_is_not_exported(name: str, tmp_path: Path) -> None:
    edit, words = EDITS[name]
    (tmp_path / NETWORK).write_text("{}")
    result = copy.deepcopy(RESULT)
    edit(result)
    with pytest.raises(UserError, match=words):
        export_run(result, tmp_path, to=tmp_path / "deployment")
    assert not (tmp_path / "deployment").exists()


def test_a_gain_that_is_not_confirmed_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / NETWORK).write_text("{}")
    (tmp_path / "run.json").write_text("{}")
    reason = RESULT["verdict"]["reason"]
    confirmed = {**RESULT, "verdict": {**RESULT["verdict"], "confirmed": True}}
    for result, notices in ((RESULT, 1), (confirmed, 0)):
        caplog.clear()
        with patch("passsearch.export.run.write_deployment") as write:
            export_run(result, tmp_path, to=tmp_path / "deployment")
        warning = f"The gain of these passes is not confirmed: {reason}." if notices else ""
        assert write.call_args.args[1].warning == warning
        assert sum("is not confirmed" in message for message in caplog.messages) == notices
