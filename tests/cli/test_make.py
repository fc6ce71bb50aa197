"""What the Makefile tells its user."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_says_where_the_command_is() -> None:
    done = subprocess.run(["make", "--dry-run", "demo"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (
        "The command is .venv/bin/passsearch; '. .venv/bin/activate' puts it on PATH." in done.stdout.splitlines()[-1]
    )
