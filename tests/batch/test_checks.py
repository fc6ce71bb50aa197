"""What of a jobs file is wrong is said at once, before any job is queued."""

from pathlib import Path

import pytest

from passsearch import cli

WRONG = """
runs: runs
networks: ["zoo:nope", "zoo:resnet_tiny", "zoo:mlp@2"]
objectives: [throughput, latency]
toolchains: [nope]
targets: [foo]
options: {passes: [Nope], sampler: foo, memory: 9999, catalogs: [absent.yaml]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(WRONG)
    return path


def test_all_mistakes_are_told_in_a_line_each_before_a_job_is_queued(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["batch", "submit", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    words = ["network `nope`", "network `mlp`", "toolchain `nope`", "target `foo`", "sampler `foo`", "`memory`"]
    for word in [*words, f"catalog file `{file.with_name('absent.yaml')}`"]:
        assert sum(word in line for line in lines) == 1, word
    assert all(line.startswith("error: ") and len(line) < 300 for line in lines)
    assert not (file.parent / "runs").exists()
    assert cli.main(["batch", "status", str(file)]) == 0
    assert [line.replace("warning: ", "error: ") for line in capsys.readouterr().err.splitlines()] == lines


def test_a_pass_is_looked_for_in_the_catalogs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\nexecutor: slurm\ntoolchains: [nope]\n"
    file.write_text(f"{text}options: {{passes: [FuseOps, Nope], memory: 9999}}\n")
    assert cli.main(["batch", "status", str(file)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert "Unknown pass `Nope`" in line, "what a cluster's nodes have is not known here"
