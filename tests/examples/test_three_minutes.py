"""The example that ``make demo`` runs: its last three lines say what its documents say."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_last_three_lines_have_the_numbers_of_the_documents(relax: object, tmp_path: Path) -> None:
    script = ROOT / "examples" / "three_minutes.py"
    done = subprocess.run(
        [sys.executable, script, "zoo:resnet_tiny"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    speed, search, deployment = done.stdout.splitlines()[-3:]

    compilation = json.loads((tmp_path / "runs" / "demo-relax-compiled" / "compilation.json").read_text())
    rival = compilation["rivals"]["onnxruntime"]
    [(latency_ms, ratio)] = re.findall(r"runs in ([\d.]+) ms, with ([\d.]+).* times the throughput of ONNX", speed)
    assert float(latency_ms) == pytest.approx(1e3 * rival["latency_s"]["median"], rel=0.01)
    # A ratio of a busy machine may have one digit.
    assert float(ratio) == pytest.approx(rival["ratio"]["ratio"], rel=0.1)

    result = json.loads((tmp_path / "runs" / "demo-relax" / "result.json").read_text())
    seconds, added = re.findall(r"^A search of ([\d.]+) s (added|confirmed)", search)[0]
    assert float(seconds) == pytest.approx(result["seconds"]["total"], rel=0.01)
    assert result["sequence"]["name"] in search and (added == "added" or not result["sequence"]["gain"]["interval"])

    command = shlex.split(deployment.partition("only: ")[2])
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
