"""The scripts of TVM's faults: each still shows its fault in the Relax toolchain, and is on the page.

If one does not, TVM has mended it: the page and the detour in passsearch may go.
"""

import subprocess
from pathlib import Path

import pytest

from passsearch.toolchain import Toolchain

FOLDER = Path(__file__).parents[2] / "docs" / "evidence" / "tvm-faults"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MOST_LINES = 60


def test_every_script_is_short_and_on_the_page() -> None:
    page = (FOLDER / "README.md").read_text()
    assert len(SCRIPTS) == 8
    assert [script.name for script in SCRIPTS if f"[{script.name}]({script.name})" not in page] == []
    assert [script.name for script in SCRIPTS if len(script.read_text().splitlines()) > MOST_LINES] == []


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_fault_is_still_there(script: Path, relax: Toolchain, tmp_path: Path) -> None:
    if script.stem == "tile" and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs a processor with AVX2")
    command = [str(relax.python), str(script)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert "expected:" in run.stdout and "got:" in run.stdout, run.stderr[-2000:]
    assert run.returncode == 1, f"this TVM does not show it any more:\n{run.stdout}"
