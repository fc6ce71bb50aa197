"""A pipeline applied pass by pass: what each pass did, and where one fails."""

from pathlib import Path

import pytest
from jobs import Job

import passsearch
from passsearch.errors import UserError


def test_each_pass_says_whether_it_changed_the_network(job: Job, tiny_network: Path) -> None:
    applied = passsearch.apply(
        tiny_network, f"{job.cheap[0]},{job.no_op}", toolchain=job.toolchain.name, print_ir=["all"]
    )
    changed, unchanged = applied["steps"]
    assert (changed["changed"], unchanged["changed"]) == (True, False)
    assert changed["operators"]
    assert changed["ir"]["before"] != changed["ir"]["after"] == unchanged["ir"]["before"]
    assert job.replaced.split(".")[-1] in changed["ir"]["before"]
    assert applied["failure"] is None
    assert f"IR before pass 1, {job.cheap[0]}" in repr(applied)


def test_a_broken_pass_is_found_by_its_file_and_line(job: Job, tiny_network: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import tvm\n\n\ndef rewrite(module, _):\n    layouts = {}\n    return layouts['NHWC']\n\n\n"
        "def broken():\n    return tvm.ir.transform.module_pass(rewrite, opt_level=0, name='Broken')\n"
    )
    catalog = tmp_path / "mine.yaml"
    catalog.write_text(
        "passes:\n  - {name: Broken, summary: Fails., factory: 'mine:broken', opt_level: 0, "
        "role: additional, reason: A test.}\n"
    )
    applied = passsearch.apply(tiny_network, f"{job.cheap[0]},Broken", toolchain=job.toolchain.name, catalogs=[catalog])
    failure = applied["failure"]
    assert (failure["kind"], failure["step"]) == ("compile_error", "Broken")
    assert f"({tmp_path / 'mine.py'}, line 6)" in failure["reason"]
    assert "return layouts['NHWC']" in applied["traceback"]
    assert [step["changed"] for step in applied["steps"]] == [True, None]


def test_a_pass_that_crashes_leaves_its_stack(job: Job, tiny_network: Path, bad_passes: Path) -> None:
    applied = passsearch.apply(tiny_network, "Crash", toolchain=job.toolchain.name, catalogs=[bad_passes])
    assert applied["failure"]["kind"] == "crash"
    assert "bad_passes.py" in applied["traceback"]


@pytest.mark.slow
def test_a_pass_that_hangs_leaves_its_stack(job: Job, tiny_network: Path, bad_passes: Path) -> None:
    # Long enough for the import, which has the same deadline, on a busy machine.
    applied = passsearch.apply(tiny_network, "Hang", toolchain=job.toolchain.name, catalogs=[bad_passes], deadline=30)
    assert applied["failure"]["kind"] == "timeout"
    assert "bad_passes.py" in applied["traceback"]


def test_ir_of_a_pass_that_the_pipeline_lacks_is_refused(job: Job, tiny_network: Path) -> None:
    with pytest.raises(UserError, match=rf"has no pass `Fuse`.*{job.cheap[0]}"):
        passsearch.apply(tiny_network, job.cheap[0], toolchain=job.toolchain.name, print_ir=["Fuse"])
