"""A scheduler's signal ends a real search at once, even while a pass hangs, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from passsearch.cli.app import INTERRUPTED
from passsearch.toolchain import Toolchain

PASSES = """
import time
from pathlib import Path
import tvm

@tvm.transform.module_pass(opt_level=0, name="Hang")
def _hang(module, _context):
    Path(__file__).with_name("hangs").touch()
    time.sleep(3600)
    return module

def hang():
    return _hang
"""
CATALOG = 'passes:\n  - {name: Hang, summary: Never returns., factory: "hanging_pass:hang", opt_level: 0}\n'
LONGEST_S = 300
"""Time that a start may take on a busy machine; far below the deadline of a pass."""


def wait_for(file: Path, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a file is there."""
    end_s = time.monotonic() + LONGEST_S
    while not file.exists():
        assert process.poll() is None and time.monotonic() < end_s, f"{file.name} is not there"
        time.sleep(0.1)


def test_a_search_ends_at_once_while_a_pass_hangs(relax: Toolchain, tiny_network: Path, tmp_path: Path) -> None:
    (tmp_path / "hanging_pass.py").write_text(PASSES)
    (tmp_path / "hanging_pass.yaml").write_text(CATALOG)
    run = tmp_path / "run"
    command = [sys.executable, "-m", "passsearch", "tune", str(tiny_network), "--toolchain", relax.name]
    command += ["--passes", "LegalizeOps,Hang", "--catalog", str(tmp_path / "hanging_pass.yaml"), "--out", str(run)]
    with subprocess.Popen([*command, "--deadline", str(2 * LONGEST_S)], env=os.environ) as process:
        wait_for(tmp_path / "hangs", process)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_S) == INTERRUPTED
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    assert json.loads((run / "result.json").read_text())["interrupted"]
    assert not (run / "artifacts" / "states").exists()
