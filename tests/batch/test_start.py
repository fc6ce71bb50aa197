"""What runs before a job ends it by its first failing line, and says how, on this machine and on a cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.batch.jobs_file import Device
from passsearch.batch.start import setup_lines, start_failure


@pytest.mark.parametrize(
    ("setup", "failure"),
    [
        (("true", "export X=1 # a comment"), ""),
        (("echo no such module >&2; false", "touch ran"), "its setup ended with exit status 1: no such module"),
        (("exit 3", "touch ran"), "its setup ended with exit status 3: no output"),
        (("kill $$; sleep 1", "touch ran"), ""),  # as `cancel` does
    ],
)
@pytest.mark.parametrize("number", ["7", "7_1"])
def test_the_first_failing_line_of_the_setup_ends_a_job_of_a_cluster(
    tmp_path: Path, setup: tuple[str, ...], failure: str, number: str
) -> None:
    device, (array, _, task) = Device("cpu", setup=setup), number.partition("_")
    names = {"SLURM_JOB_ID": array} | ({"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task} if task else {})
    with (tmp_path / f"{number}_0_log.err").open("w") as output:
        script = "\n".join([*setup_lines(device, tmp_path), "touch began"])
        subprocess.run(["bash", "-c", script], env=os.environ | names, cwd=tmp_path, stderr=output, check=False)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "began").exists() == (setup[0] == "true")
    assert start_failure(device, tmp_path, number) == failure


def test_a_failing_setup_or_container_is_told_with_its_output(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs: pip install 'passsearch[batch]'")
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\ndevices:\n"
        '  setup: {setup: ["cd /", "echo no such module >&2; exit 3", "touch ran"]}\n'
        "  absent: {container: no-such-container exec x.sif}\n"
    )
    line = [sys.executable, "-m", "passsearch", "batch", "submit", str(file), "--wait", "--trust", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stderr
    setup, container = json.loads(done.stdout)["jobs"]
    assert setup["state"] == container["state"] == "failed", "which `submit` does not take again"
    assert setup["reason"] == "its setup ended with exit status 3: no such module"
    assert container["reason"].startswith("its container ended with exit status 127: ")
    assert "no-such-container" in container["reason"]
    again = subprocess.run([*line[:5], str(file), "--trust"], capture_output=True, text=True, check=False, timeout=300)
    assert "submitted now: 0 of them" in again.stdout
    assert "mend the reasons of what failed, then: passsearch batch resubmit" in " ".join(again.stdout.split())


def test_a_setup_that_works_lets_the_job_begin(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="needs: pip install 'passsearch[batch]'")
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\ntoolchains: [nope]\ndevices:\n"
        '  setup: {setup: ["export X=1"]}\n  container: {container: env}\n'
    )
    line = [sys.executable, "-m", "passsearch", "batch", "submit", str(file), "--wait", "--trust", "--json"]
    words = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(line, env=os.environ | words, capture_output=True, text=True, check=False, timeout=300)
    rows = json.loads(done.stdout)["jobs"]
    assert all(row["starts"] == 1 and "Unknown toolchain `nope`" in row["reason"] for row in rows), rows
