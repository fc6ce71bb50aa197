"""What the referee knows of kernels before it judges."""

import subprocess
from pathlib import Path

from passsearch.toolchain import Toolchain

SCRIPT, ROOT = Path(__file__).with_name("foreign_kernel_facts.py"), Path(__file__).parents[3]


def test_indices_are_known_and_two_functions_of_one_name_are_refused(relax: Toolchain, tmp_path: Path) -> None:
    file = tmp_path / "kernel.c"
    file.write_text("void f(int *x, int *s, int *y) { }")
    done = subprocess.run(
        [str(relax.python), str(SCRIPT), str(file)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    *lines, last = done.stdout.splitlines()
    assert lines == ["False True False False", "False True False", "replaced", "replaced"], done.stderr
    assert "`one` has a function `f` in C already" in last
