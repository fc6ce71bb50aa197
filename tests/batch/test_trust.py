"""A jobs file of another person runs nothing without a question, and its names stay names."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import pytest

from passsearch.batch import queues, read_jobs, require_trusted
from passsearch.batch.job import BatchJob
from passsearch.batch.jobs_file import Device
from passsearch.cli import main
from passsearch.errors import UserError
from passsearch.toolchain import cache_folder

HARMLESS = """
runs: runs
networks: ["zoo:resnet_tiny"]
objectives: [throughput]
devices:
  cpu: {partition: gpu, gres: "gpu:1", cpus: 4}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "jobs.yaml"
    file.write_text(text)
    return file


def test_a_file_that_only_says_what_to_search_needs_no_trust(tmp_path: Path) -> None:
    require_trusted(read_jobs(write(tmp_path, HARMLESS)), trust=False)


CODE = [
    ("cpu: {", 'cpu: {setup: ["touch /tmp/x"], ', "`touch /tmp/x` before each job of `cpu` (setup)"),
    ("cpu: {", "cpu: {container: \"sh -c 'touch /tmp/x'; env\", ", "`sh -c 'touch /tmp/x'; env` for each job"),
    ("cpu: {", "cpu: {slurm: {output: /home/me/.bashrc}, ", "`sbatch --output=/home/me/.bashrc` for `cpu` (slurm)"),
    ("cpu: {", 'cpu: {slurm: {nice: "1\\ttouch /tmp/x"}, ', "`sbatch --nice=1\\ttouch /tmp/x`"),
    ("cpu: {", 'cpu: {targets: ["llvm -cl-opt=-stats:bool=1"], ', "options of LLVM in the target"),
    ("runs: runs", "runs: runs\noptions: {catalogs: [evil.yaml]}", "evil.yaml` (catalogs)"),
    ("runs: runs", "runs: runs\noptions: {trust: true}", "whatever its networks call (trust)"),
    ("runs: runs", "runs: /tmp/elsewhere", "runs in `/tmp/elsewhere`, which is not below the folder of the file"),
    ("runs: runs", "runs: ../runs", "which is not below the folder of the file"),
    ("runs: runs", "runs: .", "which is not below the folder of the file"),
]


@pytest.mark.parametrize(("old", "new", "what"), CODE)
def test_what_runs_code_is_printed_and_refused_without_trust(
    tmp_path: Path, old: str, new: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil.yaml").write_text("passes: []")
    file = write(tmp_path, HARMLESS.replace(old, new))
    for command in ("submit", "resubmit", "cross"):
        assert main(["batch", command, str(file)]) == 2
        error = capsys.readouterr().err
        assert what in error and "--trust" in error and error.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    require_trusted(read_jobs(file), trust=True)
    assert ("would run code" in error) == ("runs in" not in error), "a place is no code"
    assert main(["batch", "status", str(file)]) == 0, "a look runs nothing"


@pytest.mark.parametrize("name", ["cpu\ntouch /tmp/x\n#", "../cpu", "a b", "-x", "x" * 61, "\x1b[2J", ""])
def test_names_of_devices_are_plain(tmp_path: Path, name: str) -> None:
    text = HARMLESS.replace("  cpu:", f'  "{name.encode("unicode_escape").decode()}":')
    with pytest.raises(UserError, match="a name of letters, digits") as error:
        read_jobs(write(tmp_path, text))
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value)


def test_a_gpu_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the UUID of a GPU"):
        read_jobs(write(tmp_path, HARMLESS.replace("cpu: {", 'cpu: {gpu: "x/../../../new/y", ')))


def test_a_folder_with_a_line_break_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a\ntouch x"
    folder.mkdir()
    with pytest.raises(UserError, match="without control characters"):
        read_jobs(write(folder, HARMLESS))
    with pytest.raises(UserError, match="without control characters"):
        read_jobs(write(tmp_path, HARMLESS.replace("runs: runs", 'runs: "a\\x1bb"')))


def test_a_link_does_not_lead_runs_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "runs").symlink_to(tmp_path)
    with pytest.raises(UserError, match="not below the folder"):
        require_trusted(read_jobs(write(tmp_path / "jobs", HARMLESS)), trust=False)


@pytest.mark.parametrize("gpu", ["x/../../../../../../../..{}/made/file", "GPU-1/2", "\x1b[2J"])
def test_a_gpu_names_no_path(tmp_path: Path, gpu: str) -> None:
    held: list[Path] = []

    class Job:
        device = Device("gpu", gpu=gpu.format(tmp_path))

        def __call__(self, turn: AbstractContextManager[None]) -> None:
            with turn:
                held.extend(path for path in (cache_folder() / "locks").iterdir() if path.name.startswith("batch-"))

    queues._LocalWork(cast(BatchJob, Job()), None)()
    assert all(path.is_file() for path in held) and held
    assert not (tmp_path / "made").exists()
