"""The file of jobs: its product, stable names, and one clear line for each mistake."""

from pathlib import Path

import pytest

from passsearch.batch import TuneJob, read_jobs, tune_jobs
from passsearch.errors import UserError

WHOLE = """
runs: /shared/runs
executor: slurm
networks: [zoo:resnet_tiny, {model: "zoo:bert_tiny", batch: 4}]
objectives: [throughput, [throughput, compile_time]]
options: {timeout: 600, trials: 40}
devices:
  a100:
    toolchains: [cuda-a100]
    targets: [cuda -arch=sm_80]
    partition: gpu
    constraint: a100
    account: compilers
    gres: gpu:1
    memory_gb: 32
    setup: [module load cuda]
    slurm: {nice: 100}
  rtx:
    toolchains: [cuda-rtx]
    targets: [cuda -arch=sm_86]
    partition: rtx
    gpu: GPU-11111111-aaaa
    container: apptainer exec --nv /shared/tvm.sif
  cpu: {minutes: 90}
"""


def _jobs(folder: Path, text: str) -> list[TuneJob]:
    file = folder / "jobs.yaml"
    file.write_text(text)
    return tune_jobs(read_jobs(file))


def test_jobs_are_the_product_with_the_toolchain_of_each_device(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, WHOLE)
    assert len(jobs) == len({job.name for job in jobs}) == 2 * 2 * 3
    assert {(job.device.name, job.toolchain, job.target) for job in jobs} == {
        ("a100", "cuda-a100", "cuda -arch=sm_80"),
        ("rtx", "cuda-rtx", "cuda -arch=sm_86"),
        ("cpu", None, None),
    }
    assert {(job.network.model, job.network.batch) for job in jobs} == {("zoo:resnet_tiny", None), ("zoo:bert_tiny", 4)}
    assert {job.objective for job in jobs} == {"throughput", "throughput,compile_time"}


def test_slurm_gets_the_parameters_of_a_device(tmp_path: Path) -> None:
    devices = {job.device.name: job.device.slurm for job in _jobs(tmp_path, WHOLE)}
    # A GPU is one job's by its `gres`; a CPU only if the job has the node. The time limit follows that of the run.
    assert devices["a100"] == {
        "partition": "gpu",
        "constraint": "a100",
        "account": "compilers",
        "gres": "gpu:1",
        "mem": "32GB",
        "time": 26,
        "additional_parameters": {"nice": 100},
    }
    assert devices["cpu"] == {"time": 90, "exclusive": True}


def test_a_name_stays_when_limits_grow_or_the_folder_moves_and_changes_with_the_job(tmp_path: Path) -> None:
    options = "options: {trials: 5, seed: 1, catalogs: [own.yaml]}\n"
    text = f"runs: runs\nnetworks: [net.onnx]\nobjectives: [throughput]\n{options}"
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "net.onnx").touch()
    [job] = _jobs(tmp_path / "a", text)
    [moved] = _jobs(tmp_path / "b", text)
    [longer] = _jobs(tmp_path / "a", text.replace("trials: 5", "trials: 500, timeout: 60"))
    [other] = _jobs(tmp_path / "a", text.replace("seed: 1", "seed: 2"))
    assert job.name == moved.name == longer.name != other.name
    assert job.network.model == str(tmp_path / "a" / "net.onnx") and job.folder.parent == tmp_path / "a" / "runs"
    assert job.name.startswith("net-throughput-cpu-")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runs: runs", "", "field `runs`: got `nothing`; allowed: a text that is not empty."),
        ("trials: 5", "trails: 5", "unknown field `options.trails`; did you mean `trials`?"),
        ("trials: 5", "trials: -1", "`trials` is a whole number from 0 on; got -1."),
        ("trials: 5", "passes: FoldConstant", "`passes` is a list; got the single value 'FoldConstant'."),
        ("[throughput]", "[speed]", "Unknown objective `speed`; choose from: throughput, latency,"),
        ("[throughput]", "[]", "field `objectives`: got `nothing`; allowed: a list with at least one item."),
        ("[throughput]", "[throughput, throughput]", "is in the file twice"),
        ("zoo:resnet_tiny", "absent.onnx", "field `networks.model`: got `absent.onnx`; allowed: `zoo:NAME`, or a file"),
        ("cpu: {}", "cpu: {partitions: x}", "unknown field `devices.cpu.partitions`; did you mean `partition`?"),
        ("cpu: {}", "cpu: {at_once: 0}", "field `devices.cpu.at_once`: got `0`; allowed: a whole number from 1"),
        ("cpu: {}", "cpu: [x]", "field `devices.cpu`: got `['x']`; allowed: a mapping"),
        ("runs: runs", "runs: runs\nexecutor: pbs", "field `executor`: got `pbs`; allowed: local | slurm"),
        ("runs: runs", "runs: [", "is not valid YAML at line"),
        ("trials: 5", "out: x", "unknown field `options.out`; allowed: trials, timeout, seed"),
        ("runs: runs", 'runs: ""', "field `runs`: got ``; allowed: a text that is not empty."),
        ("cpu: {}", "cpu: {setup: module load gcc}", "allowed: a list of texts, such as [module load gcc]."),
        ("cpu: {}", 'cpu: {setup: ["a\\0b"]}', "field `devices.cpu.setup`: got `a\\x00b`; allowed: lines of a shell"),
        (
            "cpu: {}",
            'cpu: {slurm: {comment: "x\\ntouch y"}}',
            "`devices.cpu.slurm.comment`: got `x\\ntouch y`; allowed:",
        ),
        ("cpu: {}", 'cpu: {slurm: {"x\\ntouch y": 1}}', "field `devices.cpu.slurm`: got `x\\ntouch y`; allowed: names"),
        (
            "cpu: {}",
            'cpu: {partition: "x\\ny"}',
            "field `devices.cpu.partition`: got `x\\ny`; allowed: a text in one line.",
        ),
        (
            "cpu: {}",
            'cpu: {account: "x\\0y"}',
            "field `devices.cpu.account`: got `x\\x00y`; allowed: a text in one line.",
        ),
        (
            "cpu: {}",
            'cpu: {container: "x\\ny"}',
            "field `devices.cpu.container`: got `x\\ny`; allowed: a text in one line.",
        ),
        ("runs: runs", 'runs: "x\\ny"', "field `runs`: got `x\\ny`; allowed: a text in one line."),
        ("[zoo:resnet_tiny]", '["zoo:x\\ny"]', "field `networks.model`: got `zoo:x\\ny`; allowed: a text in one line."),
    ],
)
def test_a_mistake_is_named_in_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (
        "runs: runs\nnetworks: [zoo:resnet_tiny]\nobjectives: [throughput]\noptions: {trials: 5}\ndevices:\n  cpu: {}\n"
    )
    with pytest.raises(UserError) as error:
        _jobs(tmp_path, text.replace(old, new))
    assert message in str(error.value) and "\n" not in str(error.value)
    if "twice" not in message:
        assert str(tmp_path / "jobs.yaml") in str(error.value)


def test_the_files_of_the_documentation_are_read(tmp_path: Path) -> None:
    blocks = (Path(__file__).parents[2] / "docs" / "guide" / "batch.md").read_text().split("```yaml\n")[1:]
    assert [len(_jobs(tmp_path, block.partition("```")[0])) for block in blocks] == [4, 8]


def test_a_network_of_a_batch_has_its_samples(tmp_path: Path) -> None:
    network = '{model: "zoo:resnet_tiny", samples: images.npz}'
    text = f"runs: runs\nnetworks: [{network}, zoo:resnet_tiny]\nobjectives: [latency]\n"
    with pytest.raises(UserError, match=r"images\.npz"):
        _jobs(tmp_path, text)
    (tmp_path / "images.npz").touch()
    first, second = _jobs(tmp_path, text)
    assert (first.network.samples, second.network.samples) == (tmp_path / "images.npz", None)
    assert first.name != second.name
