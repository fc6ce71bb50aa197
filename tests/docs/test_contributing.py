"""The commands of CONTRIBUTING.md select tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(r"^\.venv/bin/python -m (pytest .*?) +#", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


IN_ONE_FILE = [each for each in COMMANDS if ".py" in each]
IN_FOLDERS = [each for each in COMMANDS if "tests/" in each and each not in IN_ONE_FILE]


@pytest.mark.parametrize(
    "command", [*IN_ONE_FILE, *(pytest.param(each, marks=pytest.mark.slow) for each in IN_FOLDERS)]
)
def test_a_command_selects_tests(command: str) -> None:
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)]
    done = subprocess.run(
        [sys.executable, "-m", *words, "--collect-only", "-q"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-500:]
