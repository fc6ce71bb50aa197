"""What the Makefile tells its user."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_says_last_where_the_command_is() -> None:
    # Below another `make`, as in `make test`, it would print folders too.
    command = ["make", "--no-print-directory", "--dry-run", "demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    assert "The command is .venv/bin/passsearch; '. .venv/bin/activate' puts it on PATH." in last
