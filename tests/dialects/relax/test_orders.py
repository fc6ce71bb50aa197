"""The phases keep their promise: whatever the order, TVM lowers the result, and it computes the same."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from passsearch.catalog import load
from passsearch.frontends import resolve
from passsearch.toolchain import Toolchain

SCRIPT = Path(__file__).with_name("order_cases.py")


@pytest.mark.slow
@pytest.mark.parametrize("network", ["resnet_tiny", "bert_tiny"])
def test_random_orders_of_all_candidates_build_and_agree(network: str, relax: Toolchain, tmp_path: Path) -> None:
    entries = load(relax.dialect).entries.values()
    passes = [
        {"name": each.name, "factory": each.factory, "phases": list(each.phases)}
        for each in entries
        if each.role == "candidate" and "cpu" in (each.devices or ("cpu",)) and each.numerics != "approximate"
    ]
    asked = {"networks": [str(resolve(f"zoo:{network}", folder=tmp_path).path)], "passes": passes}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    ended = subprocess.run(
        [str(relax.python), str(SCRIPT), str(tmp_path / "asked.json")],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[3])},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"case"')]
    assert [(each["refused"], each["wrong"]) for each in told] == [([], [])]
    assert {"loops", "memory"} < set(told[0]["phases"])
