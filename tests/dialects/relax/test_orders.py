"""Passes in any order within their phases make a module that TVM can lower, and that computes the same."""

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
    passes = [
        {"name": entry.name, "factory": entry.factory, "phases": list(entry.phases)}
        for entry in load(relax.dialect).entries.values()
        if entry.role == "candidate" and "cpu" in (entry.devices or ("cpu",)) and entry.numerics != "approximate"
    ]
    request = {"networks": [str(resolve(f"zoo:{network}", folder=tmp_path).path)], "passes": passes}
    (tmp_path / "request.json").write_text(json.dumps(request))
    done = subprocess.run(
        [str(relax.python), str(SCRIPT), str(tmp_path / "request.json")],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[3])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    assert [(case["refused"], case["wrong"]) for case in results] == [([], [])]
    # Chance decides whether an order ends before or after a schedule; both were loops.
    assert {"loops", "schedules"} & set(results[0]["phases"]) and "memory" in results[0]["phases"]
