"""The attributes, inputs and outputs of ONNX's schemas that a dialect's converters leave out are refused by name.

The networks are made from the schemas of operator sets 7 to 22. The files ``unread.txt`` of the dialects list what is
left out; a line that is no longer true must be deleted, and none may be added.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from onnx_schemas import write

from passsearch.toolchain import Toolchain

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_what_a_converter_leaves_out_is_refused(
    dialect: str, tmp_path: Path, toolchain_of: Callable[[str], Toolchain]
) -> None:
    assert write(tmp_path) > 700
    done = subprocess.run(
        [str(toolchain_of(dialect).python), str(HERE / dialect / "schema_cases.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    cases = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    assert [case for case in cases if case["state"] == "failed"] == []
    assert [case for case in cases if "\n" in case["message"]] == []
    unread = {case["case"] for case in cases if case["state"] == "unread"}
    assert unread == set((HERE / dialect / "unread.txt").read_text().splitlines())
