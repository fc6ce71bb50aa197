"""What the Makefile runs."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("words", "dialect"), [([], "relax"), (["DIALECT=relay"], "relay")])
def test_the_demo_ends_with_the_lines_of_its_example(words: list[str], dialect: str) -> None:
    # Below another `make`, as in `make test`, it would print folders too.
    command = ["make", "--no-print-directory", "--dry-run", "demo", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    script = ".venv/bin/python examples/three_minutes.py"
    assert done.stdout.splitlines()[-1] == f"{script} --toolchain {dialect} --seconds 180"
