"""The commands of CONTRIBUTING.md select tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^\.venv/bin/python -m (pytest .*?) +#", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [each for each in COMMANDS if "tests/" in each])
def test_a_command_selects_tests(command: str) -> None:
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--collect-only", "-q"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-500:]
